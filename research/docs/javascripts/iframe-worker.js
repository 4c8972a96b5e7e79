// A page opened as a file may start no worker, and the site's search runs in one. Here it runs in a hidden frame instead.
// The theme looks for this name, `IFrameWorker`, and would load a script of the same purpose from elsewhere.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    this.inside = frame.contentWindow;
    this.ready = new Promise((loaded) => {
      const page = frame.contentDocument;
      page.open();
      page.write("<!doctype html><title>search</title><script>function postMessage(data) { parent.postMessage(data, '*') }</script>");
      page.close();
      const script = page.createElement("script");
      script.src = url;
      script.onload = loaded;
      page.head.appendChild(script);
    });
    window.addEventListener("message", (event) => {
      if (event.source === this.inside) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
    });
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
};

if (location.protocol === "file:") window.Worker = window.IFrameWorker;
