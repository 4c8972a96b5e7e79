"""What those who run a federation do around it: see how it stands, find out what is wrong, make it a service.

Everything here reads what silos and coordinators keep; nothing decides for them, and no output shows a cell of a table.
"""
