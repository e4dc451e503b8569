"""setup: the environment, made ready by the door itself; says what it holds."""

from __future__ import annotations

from typing import Any

from app.commands._common import finish, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "setup", "Prepare the environment and the home, and say what they hold", run)
    parser.add_argument("--imagenet", action="store_true", help="also download torchvision's ImageNet weights")


def run(args) -> int:
    import sys

    from core.engine.tensors import pick_device
    from core.studio.db.home import Home
    from core.studio.db.store import Store
    from core.studio.runs.records import package_versions

    home = Home.at(args.home)
    Store(home)
    device = str(pick_device(args.device))
    payload: dict[str, Any] = {
        "python": sys.executable,
        "home": str(home.path),
        "device": device,
        "packages": package_versions(),
    }
    if args.imagenet:
        from core.engine.backbones.config import EncoderConfig
        from core.engine.backbones.encoder import build_encoder

        build_encoder(EncoderConfig(init="imagenet"))
        payload["imagenet"] = True
    for key, value in payload.items():
        say(args, f"{key}: {', '.join(f'{k} {v}' for k, v in value.items()) if isinstance(value, dict) else value}")
    return finish(args, payload)
