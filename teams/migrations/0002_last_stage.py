"""The stage in which a deployment's newest launch ended, for its word on the dashboard."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("teams", "0001_people_teams_and_deployments")]

    operations = [
        migrations.AddField(
            model_name="deployment", name="last_stage", field=models.CharField(blank=True, max_length=20)
        )
    ]
