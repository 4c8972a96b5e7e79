"""From a training's specification to what it released, in the order in which to read it.

`spec`: what will be released, fixed before any record is touched. `budget`: what it may spend. `release`: reserve,
draw, account. `loop`: the one loop over rounds. `training`: the steps one after the other.
"""
