from __future__ import annotations

from dataclasses import replace

from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids, column_names, fingerprint
from snapline.sql.plans.trees import Attribute, Plan


def filtered(shift: int, limit: int) -> Plan:
    """The same plan with other ids."""
    output = tuple(replace(each, id=each.id + shift) for each in kit.EVENTS)
    return kit.where(kit.relation("events", output), kit.greater(reference(output[3]), kit.literal(limit)))


def test_ids_do_not_matter_and_meaning_does() -> None:
    assert fingerprint(filtered(0, 5)) == fingerprint(filtered(100, 5))
    assert fingerprint(filtered(0, 5)) != fingerprint(filtered(0, 6))


def test_which_column_is_read_matters() -> None:
    plans = [kit.where(kit.relation(), kit.greater(reference(each), kit.literal(5))) for each in (kit.ID, kit.PRICE)]
    assert fingerprint(plans[0]) != fingerprint(plans[1])


def test_uids_tell_what_an_operator_is_and_the_second_has_a_number() -> None:
    uids = Uids("q")
    assert [uids.uid("aggregate", "User Id"), uids.uid("aggregate", "User Id")] == [
        "q-aggregate-user_id",
        "q-aggregate-user_id-2",
    ]


def test_long_uids_differ_where_names_do() -> None:
    names = [f"sum(column_{number})" for number in range(20)]
    made = [Uids().uid("aggregate", *names, last) for last in ("a", "b", "a")]
    assert made[0] == made[2] != made[1]
    assert len(made[0]) == 120


def test_names_of_columns_are_unique_and_free_of_what_operators_need() -> None:
    given = [Attribute(n, name, kit.TIME) for n, name in enumerate(["a", "a", "__change", "b/c"])]
    assert column_names(given) == ["a", "a (2)", "column __change", "b_c"]
