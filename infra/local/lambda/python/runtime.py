"""Runs a Python handler against the Runtime API, 2018-06-01, as Lambda's own runtime does.

The local host starts it as python3 -I -u -B -c TEXT, in the folder of the function.
"""

import http.client
import importlib
import json
import os
import sys
import time
import traceback


class Context:
    def __init__(self, headers):
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self._deadline = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self):
        return max(self._deadline - int(time.time() * 1000), 0)


def report(error, kind, request_id):
    return json.dumps(
        {
            "errorMessage": str(error),
            "errorType": kind,
            "requestId": request_id,
            "stackTrace": traceback.format_tb(error.__traceback__),
        }
    ).encode("ascii")


def main():
    host, _, path = os.environ["AWS_LAMBDA_RUNTIME_API"].partition("/")
    base = "/" + path + "/2018-06-01/runtime/"
    connection = http.client.HTTPConnection(host)

    def call(method, what, body=None):
        connection.request(method, base + what, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        return response, response.read()

    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    try:
        handler = getattr(importlib.import_module(module), name)
    except BaseException as e:
        traceback.print_exc()
        kind = "Runtime.HandlerNotFound" if isinstance(e, AttributeError) else "Runtime.ImportModuleError"
        call("POST", "init/error", report(e, kind, ""))
        sys.exit(1)
    while True:
        response, body = call("GET", "invocation/next")
        if response.status != 200:
            sys.exit("the local host gives this process no work: %d" % response.status)
        context = Context(response.headers)
        answer = "invocation/%s/" % context.aws_request_id
        try:
            event = json.loads(body)
        except Exception as e:
            call("POST", answer + "error", report(e, "Runtime.UnmarshalError", context.aws_request_id))
            continue
        try:
            out = handler(event, context)
        except Exception as e:
            call("POST", answer + "error", report(e, type(e).__name__, context.aws_request_id))
            continue
        try:
            out = json.dumps(out, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except Exception as e:
            call("POST", answer + "error", report(e, "Runtime.MarshalError", context.aws_request_id))
            continue
        call("POST", answer + "response", out)


main()
