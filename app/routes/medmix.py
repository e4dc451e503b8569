"""Routes of the MedMix tab: its forms, the grid as pixels, figures, presets and the numbers beside the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.responses import PlainTextResponse, Response

from core.studio.ingest import donors as donor_pool
from core.studio.ingest import uploads as dropped
from core.studio.medmix import figure, presets, probe
from core.studio.medmix import forms as medmix_forms
from core.studio.medmix import preview as medmix_view

Scene = Annotated[dict, Body(embed=True)]
Values = Annotated[dict, Body()]


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/medmix")
    samples = medmix_view.Samples(ctx.store())

    def folder_of(scene: medmix_view.Scene) -> Path | None:
        return dropped.drop_folder(ctx.home, scene.drop) if scene.drop else None

    @router.get("/forms")
    def forms():
        return {"ok": True, **medmix_forms.forms()}

    @router.post("/grid")
    def grid(scene: Scene):
        asked = medmix_view.Scene.from_dict(scene)
        packed = medmix_view.draw_grid(samples, asked, folder_of(asked)).pack()
        return Response(packed, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @router.post("/figure.{kind}")
    def save_figure(kind: str, scene: Scene, outlines: bool = Body(True), title: str = Body("")):
        asked = medmix_view.Scene.from_dict(scene)
        made = figure.figure(medmix_view.draw_grid(samples, asked, folder_of(asked)), kind, outlines, title)
        return Response(made, media_type=figure.TYPES[kind])

    @router.post("/probe")
    def numbers(scene: Scene, encoder: str = Body("")):
        return {"ok": True, **probe.probe(ctx.store(), medmix_view.Scene.from_dict(scene), encoder or None)}

    @router.get("/donors")
    def donors():
        return {"ok": True, "studies": donor_pool.donor_studies(ctx.store())}

    @router.get("/presets")
    def list_presets():
        return {"ok": True, "presets": presets.list_presets(ctx.store(), versions=True)}

    @router.post("/presets")
    def save(
        request: Request,
        config: Values,
        name: str = Body(),
        strong: str = Body("medmix"),
        note: str = Body(""),
    ):
        kept = presets.save_preset(ctx.store(), name, strong, config, note, ctx.user_of(request))
        return {"ok": True, "preset": kept}

    @router.delete("/presets/{name}")
    def remove(name: str):
        presets.remove_preset(ctx.store(), name)
        return {"ok": True}

    @router.post("/presets.yaml")
    def export(config: Values, name: str = Body(), strong: str = Body("medmix"), version: int = Body(0)):
        preset = {"name": name, "version": version, "strong": strong, "note": ""}
        return PlainTextResponse(presets.to_yaml({**preset, "config": presets.checked(strong, config)}))

    @router.post("/presets/read")
    def read(text: str = Body(embed=True)):
        return {"ok": True, "preset": presets.from_yaml(text)}

    return router
