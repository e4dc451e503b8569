"""The named endpoints for programs: `gradio_client` lists them, and an MCP client sees them as tools.

Each is a typed wrapper of one of the studio's routes, which it calls with the caller's credentials: permissions,
blinding, limits and errors are the route's, and nothing is decided here. Programs sign in with a token
(`Authorization: Bearer pmsacl_...`, made under "Tokens" at the top of the page); without accounts none is needed.
"""

import base64
import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, Literal, get_type_hints

import gradio as gr
import httpx
import numpy as np
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError

from app.routes.errors import sentence_of
from app.routes.programs import png_address

CARRIED = ("authorization", "cookie")  # headers of the caller's request that identify the reader
INSIDE = "http://localhost"


class Routes:
    """Calls the server's own routes from inside it."""

    def __init__(self) -> None:
        self.server: FastAPI | None = None  # set later: the page is part of the server

    async def ask(self, request: gr.Request, method: str, path: str, **given: Any) -> httpx.Response:
        """Calls a route and returns its answer. Raises gr.Error with the route's sentence if it refuses."""
        assert self.server is not None
        head = {name: request.headers[name] for name in CARRIED if name in request.headers}
        inside = httpx.ASGITransport(app=self.server)
        async with httpx.AsyncClient(transport=inside, base_url=INSIDE, headers=head, timeout=None) as client:
            answer = await client.request(method, path, **given)
        if answer.is_error:
            try:
                sentence = answer.json()["error"]
            except (json.JSONDecodeError, KeyError, TypeError):
                sentence = answer.text or "The studio did not answer."
            raise _refusal(sentence)
        return answer

    async def get(self, request: gr.Request, path: str, **asked: Any) -> dict[str, Any]:
        """Returns the answer of a GET route; arguments that are None are not sent."""
        answer = await self.ask(request, "GET", path, params={k: v for k, v in asked.items() if v is not None})
        return _content(answer.json())

    async def post(self, request: gr.Request, path: str, **body: Any) -> dict[str, Any]:
        """Returns the answer of a POST route."""
        return _content((await self.ask(request, "POST", path, json=body)).json())


def _content(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.pop("ok", True) is False:
        raise _refusal(str(answer.get("error", "")))
    return answer


def _refusal(sentence: str) -> gr.Error:
    return gr.Error(sentence, print_exception=False)  # the caller's mistake, so it is not logged


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that its arguments' types are checked, which Gradio does not do."""
    types = {name: TypeAdapter(hint) for name, hint in get_type_hints(function).items() if hint is not gr.Request}

    @functools.wraps(function)
    async def asked(*given: Any, **named: Any) -> dict[str, Any]:
        arguments = inspect.signature(function).bind(*given, **named).arguments
        for name, value in arguments.items():
            try:
                arguments[name] = types[name].validate_python(value) if name in types else value
            except ValidationError as error:
                wrong = [{**problem, "loc": ("body", name, *problem["loc"])} for problem in error.errors()]
                raise _refusal(sentence_of(RequestValidationError(wrong))) from None
        return await function(**arguments)

    return asked


def endpoints(routes: Routes) -> dict[str, Callable[..., Any]]:
    """Returns the endpoints' functions by name."""

    async def studies(request: gr.Request) -> dict[str, Any]:
        """The studies of the home, and what is at work.

        Returns:
            studies: ids; job: the job at work; waiting: jobs that wait
        """
        return await routes.get(request, "/api/status")

    async def runs(study: str, request: gr.Request) -> dict[str, Any]:
        """Encoders and fitted detectors of a study, with their figures.

        Parameters:
            study: the study's id
        """
        return await routes.get(request, "/api/training/runs", study=study)

    async def score_image(image: str, run: str, request: gr.Request, heat_map: bool = False) -> dict[str, Any]:
        """Score an image that is in no study by a fitted detector. Nothing of it is kept.

        Parameters:
            image: bytes of an image file (PNG, JPEG, TIFF, DICOM) as base64
            run: id of the fit
            heat_map: whether to answer with its heat map, a PNG of 16 bits as a data address
        """
        return await routes.post(request, "/api/programs/score", image=image, run=run, heat_map=heat_map)

    async def explain(case: int, run: str, request: gr.Request, heat_map: bool = False) -> dict[str, Any]:
        """Why a run finds a case abnormal: the normal images most like it; by nearest patches its most abnormal patch.

        Parameters:
            case: the case's number in the worklist
            run: id of the fit
            heat_map: whether to answer with the case's heat map too, a PNG of 16 bits as a data address
        """
        why = await routes.get(request, f"/api/case/{case}/nearest", run=run)
        try:
            why["patch"] = await routes.get(request, f"/api/case/{case}/explain", run=run)
        except gr.Error as refusal:  # only some detectors compare with a single patch of one image
            why |= {"patch": None, "no_patch": refusal.message}
        if heat_map:
            answer = await routes.ask(request, "GET", f"/api/case/{case}/heat", params={"run": run})
            shape = [int(n) for n in answer.headers["x-map-shape"].split(",")]
            why["low"], why["high"] = (float(n) for n in answer.headers["x-map-range"].split(","))
            why["heat_map"] = png_address(np.frombuffer(answer.content, "<u2").reshape(shape))
        return why

    async def worklist(
        study: str,
        request: gr.Request,
        run: str = "",
        sort: str = "percentile",
        descending: bool = True,
        decision: str = "",
        flagged: bool = False,
        limit: int = 50,
        cursor: str = "",
    ) -> dict[str, Any]:
        """A page of a study's worklist, most urgent first, as its reader sees it.

        Parameters:
            study: the study's id
            run: id of the fit whose scores order it; "" for none
            sort: percentile, score, name, ... as on the page
            descending: the largest first
            decision: unread, normal, abnormal, unsure; "" for all
            flagged: only cases that the run flags
            limit: cases, 500 at most
            cursor: of the page before this one
        """
        filters = {"desc": int(descending), "decision": decision or None, "flagged": 1 if flagged else None}
        return await routes.get(
            request, "/api/review/list", study=study, run=run, sort=sort, limit=limit, cursor=cursor, **filters
        )

    async def decide(
        case: int,
        decision: Literal["normal", "abnormal", "unsure"],
        request: gr.Request,
        run: str = "",
        comment: str = "",
        token: str = "",
    ) -> dict[str, Any]:
        """Store a decision on a case; it is in the audit trail as any other.

        Parameters:
            case: the case's number in the worklist
            decision: normal, abnormal or unsure
            run: id of the fit that was in sight; "" for none
            comment: what is to be kept with it
            token: names the request: sent again with the same one it stores nothing
        """
        body = {"case": case, "decision": decision, "comment": comment, "run": run or None, "token": token or None}
        return await routes.post(request, "/api/review/decide", **body)

    async def medmix_preview(
        study: str, request: gr.Request, k: int = 3, samples: int = 2, seed: int = 0, size: int = 256
    ) -> dict[str, Any]:
        """MedMix by eye: normal images of a study with 0 to k fake lesions pasted, as one picture.

        Parameters:
            study: the study's id
            k: the most lesions
            samples: rows of the picture
            seed: of the draw
            size: pixels of a cell's side
        """
        scene = {"study": study, "config": {"k": k}, "samples": samples, "seed": seed, "size": size}
        answer = await routes.ask(request, "POST", "/api/medmix/figure.png", json={"scene": scene})
        return {"picture": "data:image/png;base64," + base64.b64encode(answer.content).decode()}

    async def train(
        study: str, request: gr.Request, preset: str = "quick", detectors: list[str] | None = None, name: str = ""
    ) -> dict[str, Any]:
        """Queue a training of PMSACL with MedMix, and the detectors that are fitted when it ends.

        Parameters:
            study: the study's id
            preset: imagenet, quick or paper
            detectors: names of detectors, as padim, igd, blend-head
            name: of the run
        """
        forms = await routes.get(request, "/api/training/forms")
        config, available = forms["presets"].get(preset), forms["detectors"]
        if config is None:
            raise _refusal(f"There is no preset {preset!r}; there are: {', '.join(forms['presets'])}.")
        if unknown := sorted(set(detectors or []) - set(available)):
            raise _refusal(f"There is no detector {unknown[0]!r}; there are: {', '.join(available)}.")
        chosen = {detector: available[detector]["defaults"] for detector in detectors or []}
        body = {"study": study, "config": config, "detectors": chosen, "name": name}
        return await routes.post(request, "/api/training/start", **body)

    async def job(study: str, request: gr.Request) -> dict[str, Any]:
        """Lists what jobs make for a study, stage by stage, and the seconds until all is done.

        Parameters:
            study: the study's id
        """
        return await routes.get(request, "/api/status/plan", study=study)

    async def stop(job: int, request: gr.Request) -> dict[str, Any]:
        """Stop a job for good; what it has made stays.

        Parameters:
            job: its number
        """
        return await routes.post(request, f"/api/status/stop/{job}")

    functions = (studies, runs, score_image, explain, worklist, decide, medmix_preview, train, job, stop)
    return {function.__name__: _checked(function) for function in functions}


def add_endpoints(routes: Routes) -> None:
    """Adds each function as an endpoint, inside `gr.Blocks`.

    They bypass Gradio's queue, which runs one at a time: the routes have their own.
    """
    for name, function in endpoints(routes).items():
        gr.api(function, api_name=name, queue=False, concurrency_limit=None)
