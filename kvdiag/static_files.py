"""How styles and scripts are kept: compressed, and named after their content, in what imports them too."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):
    """WhiteNoise's store; the imports of ES modules are rewritten to the hashed names."""

    support_js_module_import_aggregation = True
