"""Request and response schemas, as in the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sparsecert.registry import CERTIFICATES, RULES

if TYPE_CHECKING:
    RuleName = str
    BoundName = str
else:
    RuleName, BoundName = Literal[tuple(RULES)], Literal[tuple(CERTIFICATES)]

SEED = (
    "Determines the masks, with `example`. By default the service draws a fresh seed and returns it. A certificate "
    "holds with probability 1 - alpha over masks chosen independently of the input: do not certify inputs from someone "
    "who knew the seed."
)


class Settings(BaseModel):
    """Settings of both `predict` and `certify`."""

    model_config = ConfigDict(extra="forbid")

    alpha: float = Field(0.05, ge=1e-9, lt=1, description="Maximum probability of a wrong answer.")
    seed: int | None = Field(None, ge=0, lt=1 << 64, description=SEED)
    example: int = Field(0, ge=0, lt=1 << 32, description="Determines the masks, with the seed.")
    rule: RuleName | None = Field(
        None,
        description="Fixed masks only: how votes elect a class (default: the model's own, else pairwise; run-off for "
        "blocks and bands, plurality for a table).",
    )
    bound: BoundName | None = Field(
        None,
        description="Random masks only: two-sided (Corollary 2) and one-sided (Corollary 1), of the class with most "
        "votes, or pairwise, of the class that beats every other one (default: the model's own, else two-sided).",
    )


class PredictSettings(Settings):
    """How to classify an input."""

    n: int = Field(10_000, ge=1, description="Ablated copies that vote.")


class CertifySettings(Settings):
    """How to certify an input."""

    n0: int = Field(1_000, ge=1, description="Ablated copies that select the class; sequential: at most this many.")
    n: int = Field(10_000, ge=1, description="Fixed sampling: ablated copies that bound its probability.")
    sampling: Literal["fixed", "sequential"] = Field(
        "fixed", description="Fixed: n0 + n copies. Sequential: as many as the radius needs, with the same guarantee."
    )
    max_samples: int = Field(17_000, ge=2, description="Sequential: maximum copies, including n0.")
    tolerance: float = Field(
        0.01, ge=0, le=1_000, description="Sequential: stop when 1,000 more copies would add less radius than this."
    )
    against: Literal["pixels", "patches"] | None = Field(
        None, description="Fixed masks only: the radius counts perturbed pixels, or is the side of a perturbed patch."
    )
    stream: bool = Field(False, description="Stream JSON lines while the votes come in; the certificate comes last.")
    copies: int = Field(0, ge=0, le=16, description="Streaming: copies to show in each line.")


class InputFields(BaseModel):
    """One input, in one of four forms."""

    values: list[Any] | None = Field(
        None,
        description="Nested lists of the model's shape: channels x height x width numbers in [0, 1] for an image, "
        "a flat list for a row, with text for categories and null for missing values.",
    )
    row: dict[str, Any] | None = Field(None, description="A row of a table, keyed by column name.")
    image: str | None = Field(None, description="A PNG or JPEG file of the model's size, in base64.")
    text: str | None = Field(None, description="A text, for a model of texts; its words are the units.")


class PredictRequest(InputFields, PredictSettings):
    """An input to classify."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CertifyRequest(InputFields, CertifySettings):
    """An input to certify."""

    model_config = ConfigDict(extra="forbid", strict=True)


class VoteResponse(BaseModel):
    """Fields of every answer."""

    label: int | None = Field(description="The class; null: abstained.")
    name: str | None = Field(description="The name of the class.")
    abstained: bool
    rule: str = Field(
        description="How votes elect the class: plurality, the class with most votes; pairwise, the class that beats "
        "every other one; run-off, the winner between the two leading classes."
    )
    alpha: float | None = Field(description="Maximum probability of a wrong answer; null for fixed masks.")
    seed: int | None = Field(description="Reproduces this answer, with `example`; null for fixed masks.")
    example: int
    samples: int = Field(description="Ablated copies classified.")
    invalid: int = Field(description="Copies with non-finite scores, which vote for no class.")


class PredictResponse(VoteResponse):
    """A class, or an abstention."""

    votes: list[int] = Field(description="Votes for each class.")


class CertifyResponse(VoteResponse):
    """A certificate: no perturbation of up to `radius` pixels (or a patch of that side) changes the label."""

    radius: int | None = Field(description="Null: nothing is certified. 0: only the label is.")
    against: str = Field(description="What the radius counts: pixels, features, or the side of patches.")
    selected: int = Field(description="The class selected for certification.")
    selection: list[int] | None = Field(description="Votes that selected the class.")
    votes: list[int] = Field(description="Votes behind the certificate; fixed masks: first-choice votes.")
    p_lower: float | None = Field(description="Lower bound on the class's probability; null if sequential or exact.")
    p_upper: float | None = Field(description="Upper bound on the probability of every other class.")
    bound: str | None
    sampling: Literal["fixed", "sequential", "exact"]
    guarantee: str = Field(description="The certificate in words.")


class AblatedCopy(BaseModel):
    """One ablated copy and its predicted class."""

    draw: int = Field(description="Index of the draw; negative for copies that select the class.")
    label: int | None = Field(description="Null: non-finite scores.")
    retained: list[int] = Field(description="Retained units, in row-major order; the others are NULL.")


class ProgressLine(BaseModel):
    """A line of a stream before the last."""

    event: Literal["progress"] = "progress"
    samples: int
    most: int = Field(description="Maximum number of copies.")
    selection: list[int]
    votes: list[int]
    radius: int | None = Field(
        description="Sequential sampling: the radius certified so far, valid whatever follows; null: none yet."
    )
    label: int | None = Field(description="The class certified so far.")
    bounds: list[tuple[float, float]] | None = Field(
        description="Bounds on the class probabilities: simultaneous, anytime-valid, at level alpha."
    )
    copies: list[AblatedCopy]


class CertificateLine(CertifyResponse):
    """The last line of a stream."""

    event: Literal["certificate"] = "certificate"


class ErrorLine(BaseModel):
    """The last line of a stream that failed."""

    event: Literal["error"] = "error"
    detail: str


class ErrorResponse(BaseModel):
    """Why a request failed."""

    detail: str


class Health(BaseModel):
    """The service is up."""

    status: Literal["ok"] = "ok"
    version: str


class ShippedDigit(BaseModel):
    """A shipped input, for the page."""

    number: int
    name: str = Field(description="Its true class.")
    values: list[int] = Field(description="Pixels from 0 to 255, in row-major order.")


class ModelCard(BaseModel):
    """Facts about the model."""

    name: str
    sha256: str | None
    version: str
    shape: list[int]
    units: str = Field(description="What a radius counts: pixels, features, words, or units of another kind.")
    columns: list[str] | None = Field(description="Column names, for a model of a table.")
    categories: dict[str, list[str]] | None = Field(description="The known values of each text column of a table.")
    text_unit: str | None = Field(description="For a model of texts: what a unit is, a word or a token.")
    classes: list[str]
    scheme: dict[str, Any]
    encoding: dict[str, Any]
    architecture: dict[str, Any] | None
    precision: str
    device: str
    data: str | None = Field(description="Training data.")
    training: dict[str, Any] | None
    exact: bool = Field(description="Whether the masks are a fixed set, so that certificates are deterministic.")
    masks: int | None = Field(description="Number of fixed masks.")
    rule: str = Field(description="How votes elect the class, unless a request says otherwise.")
    answer: str = Field(description="The same in words, such as: the class with most votes.")
    largest_radius: int | None = Field(description="The largest radius that votes can certify; null for texts.")
    guarantee: str
    limits: dict[str, int]
