"""A WSGI application that forgets nothing."""
import json
import string
import urllib.parse

PAGE = string.Template("<h1>Hello, $name</h1><p>You have $count items: $items</p>")
sessions = {}


def basket_of(user):
    """What a user has in the basket; made when the user is first seen."""
    if user not in sessions:
        sessions[user] = [{"item": n, "note": "x" * 200} for n in range(20)]
    return sessions[user]


def render(user):
    basket = basket_of(user)
    items = json.dumps([entry["item"] for entry in basket])
    return PAGE.substitute(name=user, count=len(basket), items=items)


def application(environ, start_response):
    query = urllib.parse.parse_qs(environ["QUERY_STRING"])
    body = render(query.get("user", ["nobody"])[0]).encode()
    start_response("200 OK", [("Content-Type", "text/html"),
                              ("Content-Length", str(len(body)))])
    return [body]
