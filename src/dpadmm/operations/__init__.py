"""What those who run a federation do around it: invite silos, join, look after processes.

Nothing here decides what is released: that is `dpadmm.engines.federation`'s alone.
"""
