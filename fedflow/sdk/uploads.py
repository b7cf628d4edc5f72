"""What a file that is uploaded says of its columns: its `meta` in the words of FATE."""

from fedflow.domain.data.upload_meta import UploadMeta, given_names, schema_members

__all__ = ["UploadMeta", "given_names", "schema_members"]
