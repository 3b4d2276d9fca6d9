"""Addresses of the way out: the report and its parts, comparisons, rules, the design's own page."""

from importlib.util import find_spec

from django.urls import include, path

from reports import views

urlpatterns = [
    path("r/<str:public_id>/", views.report_page, name="report"),
    path("r/<str:public_id>/what-if", views.what_if, name="report-what-if"),
    path("r/<str:public_id>/log/find", views.log_find, name="report-log-find"),
    path("r/<str:public_id>/log/lines", views.log_some, name="report-log-some"),
    path("r/<str:public_id>/log.txt", views.log_text, name="report-log-text"),
    path("r/<str:public_id>/ranks.csv", views.ranks_csv, name="report-ranks-csv"),
    path("r/<str:public_id>.md", views.report_markdown, name="report-markdown"),
    path("r/<str:public_id>.html", views.report_offline, name="report-offline"),
    path("compare/", views.compare_page, name="compare"),
    path("rules/", views.rules_page, name="rules"),
    path("rules/<slug:rule_id>/", views.rules_page, name="rule"),
    path("design/", views.design_page, name="design"),
]
# The team's pages and the share links keep their addresses beside their views.
urlpatterns += [path("", include(module)) for module in ("reports.team_urls",) if find_spec(module)]
