"""The page: a slim bar with the study picker, and a tab for each widget."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import gradio as gr

from app.context import APP, Context
from app.endpoints import Routes, add_endpoints
from app.routes.errors import log_fault
from app.theme import variables
from core.studio.ingest import studies
from core.studio.review.cases import scored_runs

TABS = {  # title by widget (folder of app/widgets)
    "study": "Study",
    "medmix": "MedMix",
    "training": "Training",
    "clusters": "Clusters",
    "review": "Review",
    "results": "Results",
    "trials": "Trials",
    "report": "Report",
}
BRAND = """<div class="brand"><img src="favicon.svg" width="26" height="26" alt=""><h1>PMSACL Studio</h1>
<span class="research">research use, not a medical device</span>
<button id="at-work" hidden title="What is being worked on; click for the Training tab"></button>
<span id="connection" role="status"></span></div>"""

THEME = """<button id="theme" type="button" title="Light or dark; the viewer stays dark" aria-label="Light or dark">
◐</button>"""
OUT = """<a href="tokens" title="For programs that sign in as you">Tokens</a> <a href="password">Password</a>
<form method="post" action="sign-out"><button>Sign out</button></form>"""
INTENDED_USE = """<p class="intended-use">For research: to study how normal images of one kind can screen others of that
kind. Not a medical device: no diagnosis or treatment may rest on it, and a case that is not flagged is not
necessarily normal.</p>"""
LIBRARIES = {  # file in app/static/vendor by the name with which scripts import it
    "preact": "preact",
    "preact/hooks": "preact-hooks",
    "@preact/signals-core": "signals-core",
    "@preact/signals": "signals",
    "htm": "htm",
}
FULL = ("clusters", "review")  # tabs that fill the window; the bar above shows their intended-use notice


def head() -> str:
    """Returns the HTML of the page's head: colours, style sheets, the import map and the page's scripts."""
    shared = sorted(
        (APP / "static").rglob("*.css"), key=lambda p: (p.parent.name != "vendor", p.name != "studio.css", p)
    )
    sheets = [p.relative_to(APP).as_posix() for p in [*shared, *sorted((APP / "widgets").glob("*/*.css"))]]
    links = "".join(f'<link rel="stylesheet" href="{Context.asset(s)}">' for s in sheets)
    ground = "html,body{background:var(--ground)!important;color:var(--text)}"
    # This text shows as soon as the page's HTML has arrived, because scripts load slowly on a slow network.
    ground += "body:not(:has(#top))::before{content:'PMSACL Studio is loading…';display:block;padding:40vh 0;"
    ground += "text-align:center;font:600 1.1rem system-ui,sans-serif;color:var(--text)}"
    script = f'<script type="module" src="{Context.asset("static/studio.js")}"></script>'
    theme = f'<script src="{Context.asset("static/theme.js")}"></script>'
    icon = '<link rel="icon" href="favicon.svg">'
    return f"{theme}<style>{variables()}{ground}</style>{icon}{links}{_import_map()}{script}"


def _import_map() -> str:
    """Returns the import map from each module to its versioned address, which browsers may cache."""
    modules = (m.relative_to(APP).as_posix() for folder in ("static", "widgets") for m in (APP / folder).rglob("*.js"))
    versioned = {f"./page/{module}": Context.asset(module) for module in sorted(modules)}
    versioned |= {name: Context.asset(f"static/vendor/{file}.js") for name, file in LIBRARIES.items()}
    return f'<script type="importmap">{json.dumps({"imports": versioned})}</script>'


def widget(name: str, **props: Any) -> gr.HTML:
    """Returns the Gradio component of the widget in app/widgets/NAME: NAME.html is its frame, NAME.js its script.

    NAME.js is an ES module that exports `mount(element, studio, props)`; `props` are passed to it as JSON. Python never
    renders the frame again, so canvas, sliders and selection keep their state. The page's head links NAME.css.
    """
    frame = (APP / "widgets" / name / f"{name}.html").read_text()
    encoded = html.escape(json.dumps(props), quote=True)
    load = f"""
        const root = element.querySelector('.widget-{name}');
        window.Studio.mount(root, '{Context.asset(f"widgets/{name}/{name}.js")}', JSON.parse(root.dataset.props));
    """
    return gr.HTML(
        value="",
        html_template=f'<div class="widget widget-{name}" data-props="{encoded}">{frame}</div>',
        js_on_load=load,
        apply_default_css=False,
        padding=False,
        elem_id=f"widget-{name}",
    )


def _study_choices(ctx: Context) -> list[tuple[str, str]]:
    """Returns the name (or id) and the id of every study, newest first."""
    return [(row["name"] or row["id"], row["id"]) for row in studies.list_studies(ctx.store())]


def _start(ctx: Context):
    def start(request: gr.Request):
        """Returns updates that select the study and the tab in the URL (?study=...&tab=...), or else the defaults."""
        query = dict(request.query_params)
        choices = _study_choices(ctx)
        ids = [value for _, value in choices]
        study = query.get("study") if query.get("study") in ids else (ids[0] if ids else None)
        tab = query.get("tab") if query.get("tab") in TABS else _usual_tab(ctx, study)
        return gr.update(choices=choices, value=study), gr.update(selected=tab) if tab else gr.skip()

    return start


def _usual_tab(ctx: Context, study: str | None) -> str:
    """Returns the tab with which a study opens: Review if a run has scored it, else Study."""
    return "review" if study and scored_runs(ctx.store(), study) else "study"


def _renew(ctx: Context):
    def renew(wanted: str, current: str | None):
        """Returns an update of the picker, which selects the study in `wanted` ('id#nonce') if that study exists."""
        choices = _study_choices(ctx)
        ids = [value for _, value in choices]
        wanted = (wanted or "").rpartition("#")[0]
        chosen = wanted if wanted in ids else current if current in ids else (ids[0] if ids else None)
        return gr.update(choices=choices, value=chosen)

    return renew


class Page(gr.Blocks):
    """Gradio's Blocks, with error messages that reveal no internals. `home` is the folder of errors.log."""

    home: Path

    async def preprocess_data(self, block_fn: Any, *given: Any, **named: Any) -> Any:
        """Prepares the inputs of a function as Gradio does. Raises gr.Error if they are invalid.

        Gradio's own message would reveal objects, types and choices.
        """
        try:
            return await super().preprocess_data(block_fn, *given, **named)
        except Exception:
            raise gr.Error(f"The values sent to {block_fn.name} are invalid.", print_exception=False) from None

    async def process_api(self, block_fn: Any, *given: Any, **named: Any) -> dict[str, Any]:
        """Calls a function as Gradio does. Logs an unexpected error in errors.log and raises gr.Error instead."""
        try:
            return await super().process_api(block_fn, *given, **named)
        except gr.Error:
            raise
        except Exception as error:
            name = getattr(block_fn, "name", block_fn)
            raise gr.Error(log_fault(self.home, f"function {name}", error), print_exception=False) from None


def build_page(ctx: Context) -> gr.Blocks:
    """Builds the page as Gradio's Blocks, with its endpoints, and sets `ctx.demo` to it."""
    with Page(title="PMSACL Studio", fill_width=True, analytics_enabled=False, delete_cache=(3600, 3600)) as demo:
        demo.home = Path(ctx.home.path)
        ctx.demo = demo
        with gr.Row(elem_id="top", equal_height=True):
            gr.HTML(BRAND, elem_id="brand", padding=False)
            study_picker = gr.Dropdown(
                choices=[], label="Study", container=False, filterable=False, elem_id="study-picker", interactive=True
            )
            who = "" if ctx.single_user else OUT
            gr.HTML(f'<div id="whoami">{THEME}{who}</div>', elem_id="corner", padding=False, apply_default_css=False)
        bridge = gr.HTML(
            "", html_template="", js_on_load="window.Studio.bridge(props, trigger)", elem_id="bridge", padding=False
        )
        with gr.Tabs(elem_id="rooms") as tabs:
            for name, title in TABS.items():
                with gr.Tab(title, id=name, elem_id=f"tab-{name}"):
                    widget(name, single_user=ctx.single_user)
                    if name not in FULL:
                        gr.HTML(INTENDED_USE, padding=False, apply_default_css=False)
        follow = "(study) => window.Studio.setStudy(study)"
        loaded = demo.load(
            _start(ctx),
            None,
            [study_picker, tabs],
            api_visibility="private",
            show_progress="hidden",
            queue=False,  # one request, because the page shows nothing before its answer
        )
        loaded.then(None, study_picker, None, js=follow)
        study_picker.change(None, study_picker, None, js=follow)
        bridge.submit(
            _renew(ctx),
            [bridge, study_picker],
            study_picker,
            api_visibility="private",
            show_progress="hidden",
            queue=False,
        )
        add_endpoints(ctx.held(Routes))
    return demo
