"""The application of the bench: JSON in and out, and a rendered template."""
import json
import os
import string

ROW = string.Template("<tr><td>$name</td><td>$price</td><td>$note</td></tr>")
PAGE = string.Template("<html><body><h1>$title</h1><table>$rows</table></body></html>")
ORDERS = json.dumps([{"name": f"item {n}", "price": n * 1.25, "tags": ["a", "b", str(n)], "note": "n" * (n % 50)}
                     for n in range(60)])


def application(environ, start_response):
    orders = json.loads(ORDERS)
    rows = [ROW.substitute(name=order["name"], price=f"{order['price']:.2f}", note=order["note"].upper()) for order in orders]
    total = sum(order["price"] for order in orders)
    page = PAGE.substitute(title=environ["PATH_INFO"], rows="".join(rows))
    answer = json.dumps({"total": total, "page": page, "pid": os.getpid()}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
