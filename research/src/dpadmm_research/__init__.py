"""The evidence behind dpadmm: what the five papers claim, an audit of the code, and all methods side by side.

`papers` has one folder per paper (claims, theory, figures); papers import each other only through `claims`. `audit`
attacks the product's code, `accounting` prices a noise, `comparison` and `scoreboard` run the methods on the same data,
`reproduction` makes the figures. dpadmm imports nothing from here.
"""
