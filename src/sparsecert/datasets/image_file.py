"""Decoding an image file, or refusing it by name. Pillow is imported only where there are such files."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

# Resizing the shorter side scales the longer one: a strip one pixel high would fill the memory.
MAX_ELONGATION = 100
# Pillow looks at the content, not the name: it would pass an EPS named .jpg to another program.
FORMATS = "JPEG", "PNG", "BMP", "PPM", "WEBP", "TIFF", "GIF"
GREY = "1", "L", "LA", "La"


class BadImage(InputError):
    """A readable file without a usable image: damaged, not an image, or unsafe to decode."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path} {reason}; {remedy}")
        self.reason = " ".join(reason.split())


def open_rgb(path: Path) -> Image.Image:
    """The image in a file, fully decoded, in RGB; see `open_image`."""
    return open_image(path, 3)


def size_and_channels(path: Path) -> tuple[int, int, int]:
    """Width, height and channels of the image in a file, from its header: 1 channel if it is grey, else 3."""
    from PIL import Image

    with _refusals(path), Image.open(path, formats=FORMATS) as image:
        return *image.size, 1 if image.mode in GREY else 3


def open_image(path: Path, channels: int) -> Image.Image:
    """The image in a file, fully decoded, in RGB or, for one channel, in grey.

    Grey becomes three equal channels; transparency is dropped. CMYK JPEGs are read as inverted, with Adobe's marker or
    without, as browsers, Pillow and every loader built on it do: red is (255 - cyan) (255 - black) / 255, and so on.
    EXIF rotation is ignored, as is usual in ImageNet training. A file that the system cannot read raises InputError;
    one without a usable image raises BadImage.
    """
    from PIL import Image

    with _refusals(path), Image.open(path, formats=FORMATS) as image:
        _check_size(path, *image.size)
        if image.mode.startswith(("I", "F")):
            reason = f"has more than 8 bits per channel (mode {image.mode})"
            raise BadImage(path, reason, "convert it to 8 bits")
        return image.convert("L" if channels == 1 else "RGB")
    raise AssertionError  # nothing is suppressed


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turns what Pillow raises into refusals that name the file."""
    from PIL.Image import DecompressionBombError, DecompressionBombWarning

    try:
        yield
    except (InputError, MemoryError):
        raise
    except (DecompressionBombError, DecompressionBombWarning) as error:
        raise BadImage(path, f"is too large to decode safely ({error})", "shrink or remove it") from error
    except Exception as error:  # Pillow's decoders raise almost anything on a damaged file
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a seek before the start
            raise InputError(f"{path} cannot be read ({error.strerror}); restore it or check its disk") from error
        raise BadImage(path, f"cannot be decoded as an image ({error})", "replace or remove it") from error


def _check_size(path: Path, width: int, height: int) -> None:
    from PIL import Image

    if max(width, height) > MAX_ELONGATION * min(width, height):
        raise BadImage(path, f"is too elongated to resize ({width} x {height} pixels)", "crop or remove it")
    # Between one and two times its limit Pillow only warns, and warnings can be filtered.
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise BadImage(path, f"is too large to decode safely ({width} x {height} pixels)", "shrink or remove it")
