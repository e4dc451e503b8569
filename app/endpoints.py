"""Endpoints for programs, which `gradio_client` lists by name and MCP clients offer as tools.

Each endpoint calls routes with the caller's credentials, so that the routes decide on permissions, blinding, limits and
errors. Programs sign in with a token (`Authorization: Bearer pmsacl_...`), which is
created under "Tokens" at the top of the page. In single-user mode no token is needed.
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

CARRIED = ("authorization", "cookie")  # headers that identify the reader, copied from the caller's request
INSIDE = "http://localhost"


class Routes:
    """In-process client of the server's own routes, which passes on the caller's credentials."""

    def __init__(self) -> None:
        self.server: FastAPI | None = None  # set later, because the page is part of the server

    async def ask(self, request: gr.Request, method: str, path: str, **given: Any) -> httpx.Response:
        """Calls a route and returns its response. Raises gr.Error with the route's message if the route fails."""
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
        """Calls a GET route and returns its JSON answer without the key `ok`. Parameters that are None are not sent."""
        answer = await self.ask(request, "GET", path, params={k: v for k, v in asked.items() if v is not None})
        return _content(answer.json())

    async def post(self, request: gr.Request, path: str, **body: Any) -> dict[str, Any]:
        """Calls a POST route with the keyword arguments as JSON, and returns its JSON answer without the key `ok`."""
        return _content((await self.ask(request, "POST", path, json=body)).json())


def _content(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.pop("ok", True) is False:
        raise _refusal(str(answer.get("error", "")))
    return answer


def _refusal(sentence: str) -> gr.Error:
    return gr.Error(sentence, print_exception=False)  # not logged, because the caller made the mistake


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that the types of its arguments are checked, which Gradio does not do."""
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
    """Returns the functions of the endpoints by name."""

    async def studies(request: gr.Request) -> dict[str, Any]:
        """List the studies of the home and the jobs in progress.

        Returns:
            studies: ids of the studies; job: job that is running, or the next one; waiting: number of queued jobs
        """
        return await routes.get(request, "/api/status")

    async def runs(study: str, request: gr.Request) -> dict[str, Any]:
        """List the encoders and fitted detectors of a study, with their metrics.

        Parameters:
            study: id of the study
        """
        return await routes.get(request, "/api/training/runs", study=study)

    async def score_image(image: str, run: str, request: gr.Request, heat_map: bool = False) -> dict[str, Any]:
        """Score an image with a fitted detector. The image belongs to no study and is not stored.

        Parameters:
            image: content of an image file (PNG, JPEG, TIFF, DICOM) as base64
            run: id of the fit
            heat_map: whether to return the heat map, a 16-bit PNG as a data URL
        """
        return await routes.post(request, "/api/programs/score", image=image, run=run, heat_map=heat_map)

    async def explain(case: int, run: str, request: gr.Request, heat_map: bool = False) -> dict[str, Any]:
        """Explain a case's score: nearest normal images and, if the detector compares patches, the most abnormal patch.

        Parameters:
            case: number of the case on the page
            run: id of the fit
            heat_map: whether to return the case's heat map, a 16-bit PNG as a data URL
        """
        why = await routes.get(request, f"/api/case/{case}/nearest", run=run)
        try:
            why["patch"] = await routes.get(request, f"/api/case/{case}/explain", run=run)
        except gr.Error as refusal:  # not all detectors compare patches
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
        """Return a page of a study's worklist as the reader sees it, by default with the highest percentile first.

        Parameters:
            study: id of the study
            run: id of the fit whose scores sort the list; "" for none
            sort: sort key on the page, such as percentile, score or name
            descending: whether the largest value comes first
            decision: decision of the cases to list: unread, normal, abnormal or unsure; "" for all cases
            flagged: whether to list only the cases flagged by the run
            limit: number of cases, at most 500
            cursor: the `cursor` of the previous page; "" for the first page
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
        """Store a decision on a case, which is recorded in the audit trail.

        Parameters:
            case: number of the case on the page
            decision: normal, abnormal or unsure
            run: id of the fit whose results the reader has seen; "" for none
            comment: comment to store with the decision
            token: identifier of the request; a repeated request with the same token stores nothing
        """
        body = {"case": case, "decision": decision, "comment": comment, "run": run or None, "token": token or None}
        return await routes.post(request, "/api/review/decide", **body)

    async def medmix_preview(
        study: str, request: gr.Request, k: int = 3, samples: int = 2, seed: int = 0, size: int = 256
    ) -> dict[str, Any]:
        """Draw normal images of a study with 0 to k synthetic lesions pasted into each, as one picture.

        Parameters:
            study: id of the study
            k: largest number of lesions; the picture has a row for each number from 0 to k
            samples: number of images, one per column of the picture
            seed: random seed for choosing the images and all random settings
            size: side length of each image in pixels
        """
        scene = {"study": study, "config": {"k": k}, "samples": samples, "seed": seed, "size": size}
        answer = await routes.ask(request, "POST", "/api/medmix/figure.png", json={"scene": scene})
        return {"picture": "data:image/png;base64," + base64.b64encode(answer.content).decode()}

    async def train(
        study: str, request: gr.Request, preset: str = "quick", detectors: list[str] | None = None, name: str = ""
    ) -> dict[str, Any]:
        """Queue a training run of PMSACL with MedMix, followed by fits of the given detectors.

        Parameters:
            study: id of the study
            preset: name of the settings: sphere, imagenet, quick, paper, ...
            detectors: names of the detectors to fit, such as padim, igd or blend-head
            name: name of the run
        """
        forms = await routes.get(request, "/api/training/forms")
        config, available = forms["presets"].get(preset), forms["detectors"]
        if config is None:
            raise _refusal(f"Unknown preset {preset!r}; choose from: {', '.join(forms['presets'])}.")
        if unknown := sorted(set(detectors or []) - set(available)):
            raise _refusal(f"Unknown detector {unknown[0]!r}; choose from: {', '.join(available)}.")
        chosen = {detector: available[detector]["defaults"] for detector in detectors or []}
        body = {"study": study, "config": config, "detectors": chosen, "name": name}
        return await routes.post(request, "/api/training/start", **body)

    async def job(study: str, request: gr.Request) -> dict[str, Any]:
        """List the jobs of a study, stage by stage, and the estimated seconds until all are done.

        Parameters:
            study: id of the study
        """
        return await routes.get(request, "/api/status/plan", study=study)

    async def stop(job: int, request: gr.Request) -> dict[str, Any]:
        """Stop a job permanently. Finished results are kept.

        Parameters:
            job: id of the job
        """
        return await routes.post(request, f"/api/status/stop/{job}")

    functions = (studies, runs, score_image, explain, worklist, decide, medmix_preview, train, job, stop)
    return {function.__name__: _checked(function) for function in functions}


def add_endpoints(routes: Routes) -> None:
    """Adds the endpoints to the page; must be called inside `gr.Blocks`.

    Calls bypass Gradio's queue, which runs one call at a time; the routes limit simultaneous requests themselves.
    """
    for name, function in endpoints(routes).items():
        gr.api(function, api_name=name, queue=False, concurrency_limit=None)
