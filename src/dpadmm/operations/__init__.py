"""What those who run a federation do around it: invite silos, join, rehearse, watch, change keys and data, see how it
stands, find out what is wrong, make it a service.

Nothing here decides what is released, which is `dpadmm.engines.federation`'s alone; no output shows a cell of a table.
"""
