"""What is asked and answered, as the OpenAPI document shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sparsecert.registry import METHODS, RULES

if TYPE_CHECKING:
    RuleName = str
    BoundName = str
else:
    RuleName, BoundName = Literal[tuple(RULES)], Literal[tuple(METHODS)]

SEED = (
    "Decides the masks, with `example`. Left out, the service draws a fresh one and returns it. A certificate holds "
    "with probability 1 - alpha over masks that the input was not made for: do not take inputs from someone who knew "
    "the seed."
)


class Settings(BaseModel):
    """What `predict` and `certify` have in common."""

    model_config = ConfigDict(extra="forbid")

    alpha: float = Field(0.05, ge=1e-9, lt=1, description="Probability with which an answer may be wrong.")
    seed: int | None = Field(None, ge=0, lt=1 << 64, description=SEED)
    example: int = Field(0, ge=0, lt=1 << 32, description="A number that, with the seed, decides the masks.")
    rule: RuleName | None = Field(
        None, description="Fixed masks only: how their votes elect a class (a table: by plurality, else a run-off)."
    )


class PredictSettings(Settings):
    """How an input is to be classified."""

    n: int = Field(10_000, ge=1, description="Ablated copies that vote.")


class CertifySettings(Settings):
    """How an input is to be certified."""

    n0: int = Field(1_000, ge=1, description="Ablated copies that choose the class; sequential: at most so many.")
    n: int = Field(10_000, ge=1, description="Fixed sampling: ablated copies that bound its probability.")
    bound: BoundName = Field("two-sided", description="Corollary 2 or Corollary 1.")
    sampling: Literal["fixed", "sequential"] = Field(
        "fixed", description="Fixed: n0 + n copies. Sequential: as many as the radius needs, with the same guarantee."
    )
    max_samples: int = Field(17_000, ge=2, description="Sequential: the most copies, n0 included.")
    tolerance: float = Field(
        0.01, ge=0, le=1_000, description="Sequential: stop when 1,000 more copies promise less radius than this."
    )
    against: Literal["pixels", "patches"] | None = Field(
        None, description="Fixed masks only: the radius counts altered pixels, or is the side of an altered patch."
    )
    stream: bool = Field(False, description="Answer with lines of JSON while the votes come in, the certificate last.")
    copies: int = Field(0, ge=0, le=16, description="Streamed: show so many of the copies of each step.")


class GivenInput(BaseModel):
    """One input, in one of three forms."""

    values: list[Any] | None = Field(
        None,
        description="Nested lists of the model's shape: channels x height x width numbers from 0 to 1 for an image, "
        "a list for a row, with text where the table has text and null where a value is missing.",
    )
    row: dict[str, Any] | None = Field(None, description="A row of a table, by the names of its columns.")
    image: str | None = Field(None, description="The bytes of a PNG or JPEG file of the model's size, in base64.")


class PredictRequest(GivenInput, PredictSettings):
    """An input to classify."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CertifyRequest(GivenInput, CertifySettings):
    """An input to certify."""

    model_config = ConfigDict(extra="forbid", strict=True)


class VoteResponse(BaseModel):
    """What every answer says."""

    label: int | None = Field(description="The class; null where the service abstains.")
    name: str | None = Field(description="The name of that class.")
    abstained: bool
    alpha: float | None = Field(description="Probability with which the answer may be wrong; null for fixed masks.")
    seed: int | None = Field(description="Repeats this answer, with `example`; null for fixed masks.")
    example: int
    samples: int = Field(description="Ablated copies classified.")
    invalid: int = Field(description="Of these, how many gave scores that are not finite and voted for nobody.")


class Predicted(VoteResponse):
    """A class, or an abstention."""

    votes: list[int] = Field(description="For each class.")


class Certified(VoteResponse):
    """A certificate: no change of `radius` pixels (or patch of that side) alters the label."""

    radius: int | None = Field(description="Null: nothing is certified. 0: the label is, no change is.")
    against: str = Field(description="What the radius counts: pixels, features, or the side of patches.")
    selected: int = Field(description="The class that was to be certified.")
    selection: list[int] | None = Field(description="Votes that chose the class.")
    votes: list[int] = Field(description="Votes that the certificate is drawn from; fixed masks: of the first round.")
    p_lower: float | None = Field(description="The class has at least this probability; null if sequential or exact.")
    p_upper: float | None = Field(description="Every other class has at most this probability.")
    bound: str | None
    sampling: Literal["fixed", "sequential", "exact"]
    guarantee: str = Field(description="The statement, in words.")


class Copy(BaseModel):
    """One ablated copy, and the class that the model gives it."""

    draw: int = Field(description="Of the votes that bound the probability, 0 first; negative ones choose the class.")
    label: int | None = Field(description="Null where the scores were not finite.")
    retained: list[int] = Field(description="The units that are shown, in row-major order; the others are NULL.")


class ProgressLine(BaseModel):
    """A line of a stream before the last one."""

    event: Literal["progress"] = "progress"
    samples: int
    most: int = Field(description="Copies that it will take at most.")
    selection: list[int]
    votes: list[int]
    radius: int | None = Field(
        description="Sequential sampling: certified already, at this moment, whatever comes after; null: nothing yet."
    )
    label: int | None = Field(description="The class of that radius.")
    bounds: list[tuple[float, float]] | None = Field(
        description="For each class its probability, bounded for all classes and moments together at level alpha."
    )
    copies: list[Copy]


class CertificateLine(Certified):
    """The last line of a stream."""

    event: Literal["certificate"] = "certificate"


class ErrorLine(BaseModel):
    """The last line of a stream that could not be finished."""

    event: Literal["error"] = "error"
    detail: str


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: str


class Health(BaseModel):
    """That the service runs."""

    status: Literal["ok"] = "ok"
    version: str


class ShippedDigit(BaseModel):
    """An input that ships with the package, for the page."""

    number: int
    name: str = Field(description="Its true class.")
    values: list[int] = Field(description="Its pixels, from 0 to 255, in row-major order.")


class Card(BaseModel):
    """What the service has to say about its model."""

    name: str
    sha256: str | None
    version: str
    shape: list[int]
    columns: list[str] | None = Field(description="The names of the entries of a row, where the model is of a table.")
    classes: list[str]
    scheme: dict[str, Any]
    encoding: dict[str, Any]
    architecture: dict[str, Any] | None
    precision: str
    device: str
    data: str | None = Field(description="What it was trained on.")
    training: dict[str, Any] | None
    exact: bool = Field(description="Whether the masks are a fixed set, whose certificates hold always.")
    masks: int | None = Field(description="How many, where they are.")
    largest_radius: int = Field(description="That any votes could certify.")
    guarantee: str
    limits: dict[str, int]
