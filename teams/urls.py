"""Addresses about people and teams."""

from django.conf import settings
from django.urls import include, path

from teams.views import account, joining, rules, team, tokens

urlpatterns = [
    path("signin/", account.signin, name="signin"),
    path("setup/<str:secret>/", joining.setup, name="setup"),
    path("invitation/<str:secret>/", joining.invitation, name="invitation"),
    path("account/", account.profile, name="profile"),
    path("account/", include("allauth.account.urls")),
    path("teams/new/", team.new_team, name="team_new"),
    path("teams/<slug:slug>/", team.general, name="team_general"),
    path("teams/<slug:slug>/members/", team.members, name="team_members"),
    path("teams/<slug:slug>/members/<int:member>/", team.member_change, name="team_member_change"),
    path("teams/<slug:slug>/invitations/<int:invited>/revoke/", team.invitation_revoke, name="team_invitation_revoke"),
    path("teams/<slug:slug>/tokens/", tokens.tokens, name="team_tokens"),
    path("teams/<slug:slug>/tokens/<int:token>/revoke/", tokens.token_revoke, name="team_token_revoke"),
    path("teams/<slug:slug>/thresholds/", rules.thresholds, name="team_thresholds"),
    path("teams/<slug:slug>/redaction/", rules.redaction_rules, name="team_redaction"),
    path("teams/<slug:slug>/trail/", team.trail, name="team_trail"),
]
if "allauth.socialaccount" in settings.INSTALLED_APPS:
    urlpatterns += [
        path("account/social/", include("allauth.socialaccount.urls")),
        path("account/", include("allauth.socialaccount.providers.openid_connect.urls")),
    ]
