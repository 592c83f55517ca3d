"""A Django application answers under tracing, and its templates are on the map."""
import tracemalloc

import django
from django.conf import settings
from django.http import HttpResponse
from django.template import Context, Engine
from django.test import RequestFactory
from django.urls import path

tracemalloc.start(25)
settings.configure(DEBUG=False, SECRET_KEY="x", ROOT_URLCONF=__name__,
                   ALLOWED_HOSTS=["*"])
django.setup()
TEMPLATE = Engine().from_string("{% for row in rows %}<li>{{ row }}</li>{% endfor %}")


def page(request):
    return HttpResponse(TEMPLATE.render(Context({"rows": range(200)})))


urlpatterns = [path("", page)]

from django.core.handlers.wsgi import WSGIHandler    # noqa: E402  (needs settings)

handler = WSGIHandler()
for _ in range(20):
    response = handler.get_response(RequestFactory().get("/"))
    assert response.status_code == 200
    assert response.content.count(b"<li>") == 200
snapshot = tracemalloc.take_snapshot()
files = {stat.traceback[0].filename for stat in snapshot.statistics("filename")}
assert any("django" in name for name in files), sorted(files)[:5]
traced = sum(trace.size for trace in snapshot.traces)
assert 0 < traced <= tracemalloc.get_traced_memory()[1], traced
tracemalloc.stop()
