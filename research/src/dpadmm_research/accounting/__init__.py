"""What a noise costs and what noise a budget needs: `dpadmm account` and `dpadmm calibrate`."""
