"""One image file as RGB, whatever it was stored as; or a refusal that names the file."""

from __future__ import annotations

import errno
from pathlib import Path

from PIL import Image

from sparsecert.errors import InputError

# Resizing the shorter side multiplies the longer one: a strip of one pixel's height would fill the memory.
MAX_ELONGATION = 100
# A file's name does not decide how it is read: an EPS named .jpg would be handed to another program.
FORMATS = "JPEG", "PNG", "BMP", "PPM", "WEBP", "TIFF", "GIF"
BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)


class BadImage(InputError):
    """A file that can be read but gives no image: damaged, no image at all, or none that can be used safely."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path} {reason}; {remedy}")
        self.reason = " ".join(reason.split())


def opened(path: Path) -> Image.Image:
    """The image of a file, decoded whole, in RGB.

    Grey becomes three equal channels, and transparency is dropped. CMYK in a JPEG is stored as the complement of its
    inks, as Adobe's programs do it, with their marker or without: so browsers, Pillow and every loader built on it read
    it. Red is then (255 - cyan) (255 - black) / 255, and so on. Rows and columns are those of the file, as in ImageNet
    training elsewhere: a note in it that asks viewers to turn the image (EXIF) is not followed. A file that the system
    cannot read is an InputError; one that it can read but that holds no usable image is a BadImage.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            _refuse_extremes(path, *image.size)
            if image.mode.startswith(("I", "F")):
                reason = f"has more than 8 bits per channel (mode {image.mode})"
                raise BadImage(path, reason, "convert it to 8 bits")
            return image.convert("RGB")
    except (InputError, MemoryError):
        raise
    except BOMB as error:
        raise BadImage(path, f"is too large to decode safely ({error})", "shrink or remove it") from error
    except Exception as error:  # Pillow's decoders raise almost anything on a damaged file, whatever its name ends in
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: sought before its start
            raise InputError(f"{path} cannot be read ({error.strerror}); restore it or check its disk") from error
        raise BadImage(path, f"cannot be decoded as an image ({error})", "replace or remove it") from error


def _refuse_extremes(path: Path, width: int, height: int) -> None:
    if max(width, height) > MAX_ELONGATION * min(width, height):
        raise BadImage(path, f"is too elongated to resize ({width} x {height} pixels)", "crop or remove it")
    # Between one and two times its limit Pillow only warns, and a warning can be filtered away.
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise BadImage(path, f"is too large to decode safely ({width} x {height} pixels)", "shrink or remove it")
