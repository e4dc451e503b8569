from tests.studio.review.conftest import room

__all__ = ["room"]
