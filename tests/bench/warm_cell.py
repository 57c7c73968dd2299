#!/usr/bin/python3
"""The cell 1+1 in a kernel that is up, through HTTP, beside a framed pipe and ipykernel."""

from measure import QUICK, Daemon, FramedPipe, RawHttp, interleave, ratio, row, scaled

GROUP = "warm cell"


class Jupyter:
    """A local ipykernel; a cell counts from its request to its reply and its idle message."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(startup_timeout=60, kernel_name="python3")

    def eval(self, code: str) -> str:
        message = self.client.execute(code)
        value = ""
        while True:
            answer = self.client.get_iopub_msg(timeout=30)
            if answer["parent_header"].get("msg_id") != message:
                continue
            if answer["msg_type"] == "execute_result":
                value = answer["content"]["data"]["text/plain"]
            if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
                break
        self.client.get_shell_msg(timeout=30)
        return value

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def main() -> None:
    rounds = 50 if QUICK else 500
    with Daemon() as daemon:
        session = daemon.session()
        raw = RawHttp(daemon)
        framed = FramedPipe()
        rivals = [framed]
        raw.cell(session, "1")

        def ours() -> None:
            result = raw.cell(session, "1+1")
            assert result["value"] == "2", result

        def pipe() -> None:
            assert framed.eval("1+1") == "2"

        cases = {"albedo, local, HTTP keep-alive, wait=true": ours, "framed pipe, local": pipe}
        try:
            jupyter = Jupyter()
        except ImportError:
            jupyter = None
        if jupyter:
            rivals.append(jupyter)

            def notebook() -> None:
                assert jupyter.eval("1+1") == "2"

            cases["ipykernel, local (reply and idle)"] = notebook
        samples = interleave(rounds, cases, warmup=20)
        mine = samples["albedo, local, HTTP keep-alive, wait=true"]
        for name, values in samples.items():
            note = ""
            if values is mine:
                note = ratio(mine, samples["framed pipe, local"], "the framed pipe", 5)
                if jupyter:
                    note += "; " + ratio(mine, samples["ipykernel, local (reply and idle)"], "ipykernel", 0.15)
            row(GROUP, name, scaled(values, 1e6), "us", note)
        for rival in rivals:
            rival.close()
        raw.close()


if __name__ == "__main__":
    main()
