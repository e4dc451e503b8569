"""Every route of the page, by who may use it."""

from __future__ import annotations

import re

IN = "in"  # asked, and answered by the route itself: done, or a sentence about what is wrong with the request
# nobody, the reader who made it, a reader while a study is read blind, a reader of another study, administrator
EVERYONE = (401, IN, IN, IN, IN)
SIGHTED = (401, IN, 403, IN, IN)
OWN = (401, IN, 403, 403, IN)
ADMINISTRATORS = (401, 403, 403, 403, IN)
EXPECTED = {
    EVERYONE: """
        GET /api/status | GET /api/status/plan | GET /api/manage | GET /walk | GET /tour | GET /api/tour
        GET /api/tour/steps | GET /api/case/{case_id}/image.png | GET /api/case/{case_id}/thumb.png
        GET /api/case/{case_id}/raw | GET /api/case/{case_id}/roi.bits | GET /api/case/{case_id}/pack
        GET /api/medmix/forms | POST /api/medmix/grid | POST /api/medmix/figure.{kind} | POST /api/medmix/probe
        GET /api/medmix/donors | GET /api/medmix/presets | POST /api/medmix/presets | POST /api/medmix/presets.yaml
        POST /api/medmix/presets/read
        GET /api/review/open | GET /api/review/list | GET /api/review/counts | GET /api/review/step
        GET /api/review/case/{case_id} | POST /api/review/decide | POST /api/review/undo | POST /api/review/redo
        POST /api/review/settings | POST /api/review/threshold | GET /api/review/timeline/{case_id}
        POST /api/review/finding | DELETE /api/review/finding/{finding}
        GET /api/review/drafts | GET /api/reading | POST /api/reading/start | POST /api/reading/end
        GET /api/case/{case_id}/tile.webp | GET /api/review/overview | GET /api/review/place | POST /api/review/tag
        GET /api/reading/{session}/summary | GET /api/reading/{session}/report""",
    SIGHTED: """
        GET /api/case/{case_id}/mask.png | GET /api/case/{case_id}/mask.bits | GET /api/case/{case_id}/heat
        GET /api/case/{case_id}/explain | POST /api/review/segment/{case_id}
        GET /api/case/{case_id}/nearest | POST /api/review/mask/{case_id} | POST /api/review/restore/{mask_id}
        GET /api/review/draft/{case_id} | POST /api/review/draft/{case_id} | DELETE /api/review/draft/{case_id}
        GET /api/clusters/runs | GET /api/clusters/maps | POST /api/clusters/maps | GET /api/clusters/maps/{key}
        POST /api/clusters/maps/{key}/stop
        GET /api/clusters/maps/{key}/coords | GET /api/clusters/maps/{key}/columns
        GET /api/clusters/maps/{key}/points/{point} | GET /api/clusters/maps/{key}/points/{point}/thumb.png
        GET /api/clusters/maps/{key}/points/{point}/image.png | GET /api/clusters/maps/{key}/points/{point}/heat.png
        GET /api/clusters/maps/{key}/points/{point}/neighbours | POST /api/clusters/maps/{key}/tag
        POST /api/clusters/maps/{key}/worklist | GET /api/clusters/maps/{key}/file.{format} | POST /api/clusters/views
        GET /api/clusters/maps/{key}/placed | POST /api/clusters/maps/{key}/placed
        GET /api/clusters/maps/{key}/placed/{new}/coords | GET /api/clusters/maps/{key}/placed/{new}/{image}
        GET /api/clusters/maps/{key}/placed/{new}/{image}/thumb.png
        GET /api/clusters/maps/{key}/placed/{new}/{image}/image.png
        GET /api/export/{study}/warning | POST /api/export/{study}/{kind} | GET /api/results/{study} | GET /api/bin
        GET /api/results/{study}/sizes | GET /api/report/{study} | GET /api/report/{study}/file.{kind}
        GET /api/learn/{study} | POST /api/learn/{study}
        POST /api/study/drop | GET /api/study/{study}/overview | GET /api/study/{study}/sample
        GET /api/study/{study}/next
        GET /api/study/case/{case_id}/tile.png | GET /api/study/case/{case_id}/outlines
        GET /api/training/forms | POST /api/training/check | POST /api/training/dry | POST /api/training/start
        GET /api/training/runs | GET /api/training/run/{run_id} | GET /api/training/run/{run_id}/batch.png
        POST /api/training/run/{run_id}/fit | POST /api/training/run/{run_id}/frees
        POST /api/training/run/{run_id}/repeat | GET /api/training/compare""",
    OWN: """
        DELETE /api/clusters/maps/{key} | DELETE /api/clusters/views/{view}
        DELETE /api/clusters/maps/{key}/placed/{new} | DELETE /api/medmix/presets/{name}
        POST /api/bin/run/{run_id}/restore | PUT /api/study/drop/{token} | POST /api/training/run/{run_id}/{action}""",
    ADMINISTRATORS: """
        POST /api/study/import/{task}/stop | POST /api/status/stop/{job} | POST /api/study/{study}/kind
        POST /api/bin/study/{study}/restore | POST /api/report/{study}
        GET /api/accounts/{study} | POST /api/accounts | POST /api/accounts/set/role
        POST /api/accounts/set/password | POST /api/accounts/set/removed
        GET /api/audit | POST /api/export/bundle | GET /api/manage/{study} | GET /api/manage/{study}/watch
        POST /api/manage/{study}/watch | POST /api/manage/{study}/labels | POST /api/manage/{study}/assign
        POST /api/manage/{study}/unassign | POST /api/study/import | GET /api/study/import/{task}
        POST /api/study/{study}/add | POST /api/study/{study}/look | POST /api/study/demo
        DELETE /api/study/{study} | POST /api/tour/prepare | POST /api/tour/reset""",
}
TABLE = {row: who for who, rows in EXPECTED.items() for row in re.split(r"\s*[|\n]\s*", rows.strip())}
