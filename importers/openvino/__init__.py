"""OpenVINO: the models it saves (IR) and the models it runs, as its CPU plug-in tells them."""
