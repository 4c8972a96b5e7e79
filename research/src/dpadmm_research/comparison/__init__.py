"""The race on Adult that several papers print: the table, the contenders, their losses and budgets."""
