"""Routes of the MedMix tab: its forms, the grid as pixels, figures, presets and the numbers beside the picture."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from app.routes import _bodies as bodies
from core.studio.db import owners
from core.studio.ingest import donors as donor_pool
from core.studio.ingest import uploads as dropped
from core.studio.medmix import figure, presets
from core.studio.medmix import forms as medmix_forms
from core.studio.medmix import preview as medmix_view
from core.studio.medmix.samples import Samples


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/medmix")
    samples = Samples(ctx.store())

    def folder_of(scene: medmix_view.Scene) -> Path | None:
        return dropped.drop_folder(ctx.home, scene.drop) if scene.drop else None

    @router.get("/forms")
    def forms():
        return {"ok": True, **medmix_forms.forms()}

    @router.post("/grid")
    def grid(body: bodies.Scene):
        asked = medmix_view.Scene.from_dict(body.scene)
        packed = medmix_view.draw_grid(samples, asked, folder_of(asked)).pack()
        return Response(packed, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @router.post("/figure.{kind}")
    def save_figure(kind: str, body: bodies.Figure):
        if kind not in figure.TYPES:
            raise ValueError(f"a figure is one of {', '.join(figure.TYPES)}, not {kind!r}")
        asked = medmix_view.Scene.from_dict(body.scene)
        made = figure.figure(medmix_view.draw_grid(samples, asked, folder_of(asked)), kind, body.outlines, body.title)
        return Response(made, media_type=figure.TYPES[kind])

    @router.post("/probe")
    def numbers(body: bodies.Probe):
        from core.studio.medmix import probe  # scikit-learn, which the page's start does not wait for

        scene = medmix_view.Scene.from_dict(body.scene)
        return {"ok": True, **probe.probe(ctx.store(), scene, body.encoder or None)}

    @router.get("/donors")
    def donors():
        return {"ok": True, "studies": donor_pool.donor_studies(ctx.store())}

    @router.get("/presets")
    def list_presets():
        return {"ok": True, "presets": presets.list_presets(ctx.store(), versions=True)}

    @router.post("/presets")
    def save(request: Request, body: bodies.Preset):
        who = ctx.user_of(request)
        ctx.demand_quota(request, "preset")
        kept = presets.save_preset(ctx.store(), body.name, body.strong, body.config, body.note, who)
        owners.set_owner(ctx.store(), "preset", [kept["name"]], who)
        return {"ok": True, "preset": kept}

    @router.delete("/presets/{name}")
    def remove(name: str):
        presets.remove_preset(ctx.store(), name)
        owners.forget_owner(ctx.store(), "preset", name)
        return {"ok": True}

    @router.post("/presets.yaml")
    def export(body: bodies.PresetFile):
        preset = {"name": body.name, "version": body.version, "strong": body.strong, "note": ""}
        return PlainTextResponse(presets.to_yaml({**preset, "config": presets.checked(body.strong, body.config)}))

    @router.post("/presets/read")
    def read(body: bodies.YamlText):
        return {"ok": True, "preset": presets.from_yaml(body.text)}

    return router
