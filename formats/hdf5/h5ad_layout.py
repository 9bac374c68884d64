"""Names of the tensors of an h5ad file, and AnnData's names of CSR."""

from lodcli.formats.core.schema import DEFAULT_NAME
from lodcli.kernels.dtypes import ALL_DTYPES, COMPLEX

INDICES, OBS, VAR = "indices", "obs_names", "var_names"
CSR = ("csr_matrix", "csr")  # as anndata calls it, and as versions before 0.7 did
NAMES = (DEFAULT_NAME, INDICES, OBS, VAR)
DATA_DTYPES = (ALL_DTYPES - COMPLEX) - {"float16", "bfloat16"}
