"""What those who run a federation do around it: invite silos, join, rehearse, watch, change keys and data, check its
status, find out what is wrong, install it as a service.

Nothing here decides what is released, which is `dpadmm.federation`'s alone; no output shows a cell of a table.
"""
