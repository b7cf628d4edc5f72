"""Which features a component works on: by index, by name, by anonymous name."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.sdk import BadParameter, Site, TableSchema

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
