"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const sliders = ["epsilon", "silos", "records"].map(at);
const three = (value) => value.toFixed(3);
const percent = (value) => `${Math.round(100 * value)} %`;
const whole = (value) => value.toLocaleString("en-GB");

const isLoss = () => document.querySelector("input[name=shown]:checked").value === "loss";

function chosen() {
  const [e, s, r] = sliders.map((slider) => Number(slider.value));
  const silos = data.silos[s], records = data.records[r];
  return { e, silos, records, epsilon: data.epsilons[e], setting: data.settings[`${silos} ${records}`] };
}

function judged(cell) {
  if (cell.is_hopeless) return ["none", "Not worth training"];
  if (cell.learned < 0.5) return ["some", "Learns a little"];
  return cell.learned < 0.85 ? ["good", "Learns most"] : ["good", "Learns nearly everything"];
}

function tell(now) {
  const cell = now.setting?.cells[now.e];
  const [kind, headline] = cell ? judged(cell) : ["none", "No plan"];
  at("verdict").className = `verdict ${kind}`;
  at("headline").textContent = headline;
  const chance = data.guesses[now.e];
  const often = chance < 0.999 ? `is right at most ${(100 * chance).toFixed(1)} % of the time` : "may be right almost always, more than 99.9 % of the time";
  at("privacy").textContent = `Someone who knows everything else, and could otherwise only toss a coin, ${often}.`;
  at("command").textContent = `--epsilon ${now.epsilon} --delta ${data.delta}`;
  if (!cell) {
    at("words").textContent = "No method is certified for this choice. Use more silos, or another budget.";
    at("method").textContent = "none";
    return;
  }
  const worth = cell.is_hopeless ? " The noise hides what could be learned: choose a larger ε, or use more data." : "";
  at("words").textContent =
    `With ε = ${now.epsilon} and ${now.silos} silo${now.silos > 1 ? "s" : ""} of ${whole(now.records)} ${data.counted}, expect ${data.score} ` +
    `${three(cell.mean)} ± ${three(cell.spread)}; without noise ${three(now.setting.without)}, ${data.simplest} ${three(now.setting.simplest)}. ` +
    `${percent(cell.learned)} of what can be learned survives.${worth}`;
  const [name, summary] = data.methods[cell.method];
  at("method").textContent = `${name}, ${cell.rounds} round${cell.rounds > 1 ? "s" : ""}: ${summary}`;
}

function list(now) {
  at("rows").replaceChildren(...data.epsilons.map((epsilon, i) => {
    const cell = now.setting?.cells[i], row = document.createElement("tr");
    const words = cell ? [epsilon, three(cell.mean), three(cell.loss), percent(cell.learned), data.methods[cell.method][0]] : [epsilon, "none", "", "", ""];
    row.className = i === now.e ? "on" : "";
    row.append(...words.map((word, k) => {
      const part = document.createElement(k === 0 ? "th" : "td");
      if (k === 0) part.scope = "row";
      part.textContent = word;
      return part;
    }));
    return row;
  }));
}

function drawn(name, marks, text) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(marks)) part.setAttribute(key, value);
  if (text !== undefined) part.textContent = text;
  return part;
}

function draw(now) {
  const hasLoss = isLoss();
  const [left, right, top, bottom] = [58, 506, 12, 282];
  const known = data.epsilons.map((epsilon, i) => [epsilon, now.setting?.cells[i], i]).filter(([, cell]) => cell);
  const chart = at("chart");
  if (known.length === 0) return chart.replaceChildren();
  const without = hasLoss ? now.setting.loss_without : now.setting.without;
  const simplest = hasLoss ? now.setting.loss_simplest : now.setting.simplest;
  const value = (cell) => (hasLoss ? cell.loss : cell.mean), spread = (cell) => (hasLoss ? 0 : cell.spread);
  // What is far worse than having learned nothing would press all else together.
  const reach = 1.2 * Math.abs(without - simplest) || 0.1, floor = simplest - (hasLoss ? -reach : reach);
  const clip = (v) => (hasLoss ? Math.min(v, floor) : Math.max(v, floor));
  const all = known.flatMap(([, cell]) => [clip(value(cell) - spread(cell)), clip(value(cell) + spread(cell))]).concat(without, simplest);
  const room = 0.06 * (Math.max(...all) - Math.min(...all)) || 0.05;
  const [low, high] = [Math.min(...all) - room, Math.max(...all) + room];
  const logs = data.epsilons.map(Math.log10), first = logs[0], last = logs[logs.length - 1];
  const x = (epsilon) => left + 14 + ((right - left - 28) * (Math.log10(epsilon) - first)) / (last - first || 1);
  const y = (v) => bottom - ((bottom - top) * (clip(v) - low)) / (high - low);
  const parts = [];
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].find((each) => (high - low) / each <= 6) || high - low;
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) {
    parts.push(drawn("line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) }));
    parts.push(drawn("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(step < 0.1 ? 2 : 1)));
  }
  let free = -Infinity;
  for (const epsilon of data.epsilons) {
    if (x(epsilon) < free && epsilon !== data.epsilons[data.epsilons.length - 1]) continue;
    parts.push(drawn("text", { x: x(epsilon), y: bottom + 20, "text-anchor": "middle" }, epsilon));
    free = x(epsilon) + 36;
  }
  parts.push(drawn("text", { x: (left + right) / 2, y: bottom + 42, "text-anchor": "middle" }, "ε: larger is less private"));
  const up = known.map(([epsilon, cell]) => `${x(epsilon)},${y(value(cell) + spread(cell))}`);
  const down = known.map(([epsilon, cell]) => `${x(epsilon)},${y(value(cell) - spread(cell))}`).reverse();
  parts.push(drawn("polygon", { class: "band", points: up.concat(down).join(" ") }));
  for (const [kind, v] of [["without", without], ["simplest", simplest]])
    parts.push(drawn("line", { class: kind, x1: left, x2: right, y1: y(v), y2: y(v) }));
  parts.push(drawn("line", { class: "here", x1: x(now.epsilon), x2: x(now.epsilon), y1: top, y2: bottom }));
  parts.push(drawn("polyline", { class: "line", points: known.map(([epsilon, cell]) => `${x(epsilon)},${y(value(cell))}`).join(" ") }));
  for (const [epsilon, cell, i] of known)
    parts.push(drawn("circle", { class: i === now.e ? "chosen" : "dot", cx: x(epsilon), cy: y(value(cell)), r: i === now.e ? 7 : 4 }));
  chart.replaceChildren(...parts);
}

function show() {
  const now = chosen();
  const words = [String(now.epsilon), String(now.silos), whole(now.records)];
  sliders.forEach((slider, k) => {
    slider.setAttribute("aria-valuetext", words[k]);
    at(`${slider.id}-shown`).textContent = words[k];
  });
  const what = isLoss() ? "loss" : data.score;
  at("heading").textContent = `Expected ${what} by ε, ${now.silos} silo${now.silos > 1 ? "s" : ""} of ${whole(now.records)} ${data.counted}`;
  tell(now);
  list(now);
  draw(now);
}

[data.epsilons, data.silos, data.records].forEach((values, k) => {
  sliders[k].max = values.length - 1;
  sliders[k].value = data.own[k];
  sliders[k].disabled = values.length < 2;
  sliders[k].addEventListener("input", show);
});
document.querySelectorAll("input[name=shown]").forEach((each) => each.addEventListener("change", show));
at("score-name").textContent = data.score;
at("column").textContent = data.score;
at("simplest").textContent = `${data.simplest}, in the made-up data: nothing learned`;
show();
