"""Which features a component works on: by index, by name, by anonymous name."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.sdk import BadParameter, Context, Site, TableSchema

ALL = -1  #: in place of a list of indexes: all features


def anonymous_header(site: Site, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names by which other parties know the features of `site`, in order.

    Source: docs/reference/data-formats.md#anonymous-names.
    """
    return tuple(f"{site.role.value}_{site.party_id}_x{i}" for i in range(len(columns)))


def anonymous_label(site: Site) -> str:
    """Return the name by which other parties know the label of `site`."""
    return f"{site.role.value}_{site.party_id}_y"


def anonymous_of(schema: TableSchema, site: Site) -> tuple[str, ...]:
    """Return the anonymous names of a table's features, by their positions if it has none."""
    return schema.anonymous or anonymous_header(site, schema.columns)


def chosen_columns(
    schema: TableSchema,
    indexes: int | Sequence[int] | None,
    names: Sequence[str] | None,
    *,
    path: str,
    names_path: str | None = None,
) -> tuple[str, ...]:
    """Return the features that `indexes` (from 0; -1 = all) or `names` choose, in table order.

    `path` is the parameter's, for errors; `names_path` that of the names, if it is another.

    Raises: BadParameter: there is no such feature.
    """
    columns = schema.columns
    if indexes == ALL:
        return columns
    chosen = set(names or ())
    if unknown := sorted(chosen - set(columns)):
        raise BadParameter(
            path=names_path or path, reason=f"there are no features {', '.join(unknown[:20])}"
        )
    for index in [indexes] if isinstance(indexes, int) else indexes or ():
        if not 0 <= index < len(columns):
            raise BadParameter(
                path=path, reason=f"index {index} is not within the {len(columns)} features"
            )
        chosen.add(columns[index])
    return tuple(name for name in columns if name in chosen)


def columns_here(
    ctx: Context,
    schema: TableSchema,
    indexes: int | Sequence[int] | None,
    names: Sequence[str] | None,
    *,
    field: str,
    names_field: str,
    only_names: bool = False,
) -> tuple[str, ...]:
    """Return the features that are chosen and there, as `chosen_columns` does.

    As at FATE, names that this table lacks, and indexes past its end, are left out, with a warning:
    common parameters name the columns of all parties. `field` and `names_field` are the parameters.

    Raises: BadParameter: an index is negative; with `only_names` also: past the end.
    """
    known = [name for name in names or () if name in schema.columns]
    lacking = [name for name in names or () if name not in schema.columns]
    if isinstance(indexes, Sequence) and not only_names:
        beyond = [index for index in indexes if index >= len(schema.columns)]
        indexes = [index for index in indexes if index < len(schema.columns)]
        warn_of_columns(ctx, schema, beyond, used=len(indexes), path=field)
    if indexes != ALL:
        warn_of_columns(ctx, schema, lacking, used=len(known), path=names_field)
    return chosen_columns(schema, indexes, known, path=f"{ctx.component}.{field}")


def warn_of_columns(
    ctx: Context, schema: TableSchema, lacking: Sequence[object], *, used: int, path: str
) -> None:
    """Warn of columns that parameters choose and a table of this `schema` lacks, if there are any.

    `used` is how many of those chosen there are.
    """
    if not lacking:
        return
    named = ", ".join(str(one) for one in lacking[:20]) + (", ..." if len(lacking) > 20 else "")
    ctx.warn(
        "UnknownColumn",
        f"{len(lacking)} of {len(lacking) + used} chosen columns are not among the"
        f" {len(schema.columns)} of this table and are left out: {named}",
        hint="Correct them, or give each party its own parameters.",
        path=path,
    )
