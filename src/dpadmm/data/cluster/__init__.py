"""Passes over streamed tables on the workers of a Dask cluster, all of them inside one silo's trust.

The same tasks are called on the same parts as in one process, and what they return is added up in the same order, so a
model has the same bits wherever its sums were made. `errands` is what runs on workers; `dask_workers` is this side.
"""
