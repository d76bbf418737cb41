# Serves fakellm on a free port and prints where. The argument is the folder of the installed packages.
import os
import socket
import sys

sys.path.insert(0, sys.argv[1])
os.environ["FAKELLM_CONFIG"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakellm.yaml")

import uvicorn
from fakellm.server import app

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
