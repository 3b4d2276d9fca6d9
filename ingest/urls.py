"""Addresses of the way in. A report's own page, /r/<id>/, belongs to the way out."""

from django.urls import path

from ingest import documents, patterns, resumable, views

urlpatterns = [
    path("", views.front, name="upload"),
    # where MethodDoors sends every PUT, and DELETE of a report's page
    path("-/put/", views.put),
    path("-/put/<path:name>", views.put),
    path("-/delete/<str:public_id>", views.delete_by_token),
    path("sample/<slug:key>/", views.sample, name="sample"),
    path("r/<str:public_id>.json", documents.report_json, name="report-json"),
    path("r/<str:public_id>/log", documents.log_lines, name="report-log"),
    path("r/<str:public_id>/status.json", views.status, name="upload-status"),
    path("r/<str:public_id>/cancel", views.cancel, name="upload-cancel"),
    path("r/<str:public_id>/retry", views.retry, name="upload-retry"),
    path("r/<str:public_id>/delete", views.delete, name="upload-delete"),
    path("api/patterns.json", patterns.patterns, name="patterns"),
    path("api/uploads/", resumable.begin, name="upload-begin"),
    path("api/uploads/known/<str:sha256>", views.known_content, name="upload-known"),
    path("api/uploads/<str:public_id>/finish", resumable.finish, name="upload-finish"),
    path("api/uploads/<str:public_id>/<int:number>", resumable.part, name="upload-part"),
]
