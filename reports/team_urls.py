"""Addresses of the team's pages and of share links."""

from django.urls import path

from reports import alerts_pages, dashboard, deployments, findings_list, scenarios, sharing, sharing_live, sharing_pages

urlpatterns = [
    path("dashboard/", dashboard.dashboard, name="dashboard"),
    path("reports/", dashboard.report_list, name="report_list"),
    path("reports/delete/", sharing_pages.bulk_delete, name="bulk_delete"),
    path("views/", dashboard.save_view, name="save_view"),
    path("views/<str:public_id>/drop/", dashboard.drop_view, name="drop_view"),
    path("findings/", findings_list.findings, name="findings"),
    path("findings/change/", findings_list.findings_change, name="findings_change"),
    path("deployments/<str:public_id>/", deployments.deployment_page, name="deployment"),
    path("deployments/<str:public_id>/change/", deployments.deployment_change, name="deployment_change"),
    path("deployments/<str:public_id>/baseline/", deployments.pin_baseline, name="pin_baseline"),
    path("r/<str:public_id>/share/", sharing.share_sheet, name="share_sheet"),
    path("r/<str:public_id>/trash/", sharing_pages.trash_upload, name="trash_upload"),
    path("r/<str:public_id>/restore/", sharing_pages.restore_upload, name="restore_upload"),
    path("r/<str:public_id>/sender/", sharing_pages.prove_sender, name="prove_sender"),
    path("r/<str:public_id>/claim/", sharing_pages.claim, name="claim"),
    path("r/<str:public_id>/hide/", sharing_pages.redact, name="redact"),
    path("r/<str:public_id>/scenarios/", scenarios.keep_scenario, name="keep_scenario"),
    path("scenarios/<int:scenario>/drop/", scenarios.drop_scenario, name="drop_scenario"),
    path("shares/<str:public_id>/revoke/", sharing.share_revoke, name="share_revoke"),
    path("s/<str:token>/", sharing.shared_page, name="shared"),
    path("s/<str:token>/seen", sharing.shared_seen, name="shared_seen"),
    path("s/<str:token>/log", sharing.shared_log, name="shared_log"),
    path("s/<str:token>/log/find", sharing.shared_log_find, name="shared_log_find"),
    path("s/<str:token>/log/lines", sharing_live.shared_log_some, name="shared_log_some"),
    path("s/<str:token>/what-if", sharing_live.shared_what_if, name="shared_what_if"),
    path("s/<str:token>.json", sharing.shared_json, name="shared_json"),
    path("teams/<slug:slug>/notifications/", alerts_pages.channels, name="team_channels"),
    path("teams/<slug:slug>/notifications/<str:public_id>/", alerts_pages.channel_change, name="team_channel_change"),
    path("teams/<slug:slug>/links/", sharing_pages.team_links, name="team_links"),
    path("teams/<slug:slug>/trash/", sharing_pages.team_trash, name="team_trash"),
    path("teams/<slug:slug>/export/", sharing_pages.export, name="team_export"),
]
