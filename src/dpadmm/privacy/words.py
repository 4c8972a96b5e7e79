"""What a guarantee covers and whom it hides, in words: the same ones on the terminal, in statements and reports."""

from dataclasses import dataclass

from dpadmm.privacy.records import Relation, Unit

NOT_COVERED = "not steps fitted on these rows before, scores computed on them, or choices made by looking at them"


def covers(subject: str) -> str:
    """Say what a figure covers, and what it cannot know about.

    >>> covers("the model")[:56]
    'the model, from the rows as they were handed over; not s'
    """
    return f"{subject}, from the rows as they were handed over; {NOT_COVERED}"


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Whose change is hidden: a record, all records of a person (r in each of s silos), a user or a function.

    >>> str(Protected(unit=Unit.RECORD, relation=Relation.REPLACE_ONE))
    'one record (replace-one)'
    >>> str(Protected(unit=Unit.RECORD, relation=Relation.REPLACE_ONE, records_per_person=40, silos_per_person=2))
    "every person's up to 40 records in each of up to 2 silos (replace-one)"
    """

    unit: Unit
    relation: Relation
    records_per_person: int = 1
    silos_per_person: int = 1

    @property
    def is_single(self) -> bool:
        """Whether one thing changes at a time, not several records together."""
        return self.unit is Unit.FUNCTION or (
            self.unit is Unit.RECORD and self.records_per_person == self.silos_per_person == 1
        )

    @property
    def change(self) -> str:
        """What differs between neighbouring data sets."""
        is_spread = self.silos_per_person > 1
        if self.unit is Unit.FUNCTION:
            return "one function"
        if self.unit is Unit.USER:
            return "all records of one user" + (f" in up to {self.silos_per_person} silos" if is_spread else "")
        if self.is_single:
            return "one record"
        records = "one record" if self.records_per_person == 1 else f"up to {self.records_per_person} records"
        return f"one person's {records}" + (f" in each of up to {self.silos_per_person} silos" if is_spread else "")

    @property
    def people(self) -> str:
        """What is assumed about persons; whoever has more is protected less."""
        silos = "one silo" if self.silos_per_person == 1 else f"each of at most {self.silos_per_person} silos"
        if self.unit is not Unit.RECORD:
            return f"any number of records, in {silos.removeprefix('each of ')}"
        return f"at most {self.records_per_person} record{'s' if self.records_per_person > 1 else ''} in {silos}"

    def __str__(self) -> str:
        """Say what is hidden, and what neighbours are."""
        whose = self.change.replace("one person's", "every person's")
        return f"{whose} ({self.relation.value})"
