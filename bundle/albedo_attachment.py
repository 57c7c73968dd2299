"""One connection to a keeper: frames in, frames out, first of all its `open` with the token."""
import albedo_frames
import albedo_json
import albedo_stream

MAX_QUEUED_BYTES = 80 * 1024 * 1024  # the outbox's bound and some output: a bridge that stands still


class Attachment:
    def __init__(self, keeper, socket, decoder: albedo_frames.Decoder) -> None:
        self._keeper = keeper
        self._decoder = decoder
        self._presented = False
        self.timer = None
        self._stream = albedo_stream.Stream(keeper.loop, socket, self.on_bytes, self._on_end, self._on_drained)

    @property
    def queued(self) -> int:
        return self._stream.queued

    def send(self, kind: int, payload: bytes) -> None:
        """A frame that belongs to this attachment alone. It carries the acknowledgement all the same."""
        self._stream.send(albedo_frames.encode(0, kind, 0, self._keeper.link.ack(), payload))
        self._look_at_queue()

    def send_numbered(self, seq: int, payload: bytes) -> None:
        self._stream.send(albedo_frames.encode(
            0, albedo_frames.CONTROL, seq, self._keeper.link.ack(), payload))
        self._look_at_queue()

    def _look_at_queue(self) -> None:
        if self._stream.queued > MAX_QUEUED_BYTES:
            self.close()

    def on_bytes(self, piece: bytes) -> None:
        decoder, keeper = self._decoder, self._keeper
        if piece:
            decoder.feed(piece)
        try:
            while self._stream.open:
                frame = decoder.next()
                if frame is None:
                    return
                _kernel, kind, seq, ack, payload = frame
                if keeper.attachment is self:
                    keeper.on_frame(self, kind, seq, ack, payload)
                elif kind == albedo_frames.OPEN and not self._presented:
                    self._presented = True
                    keeper.attach(self, albedo_json.loads(payload))
                else:
                    self.refuse("token")
        except (ValueError, KeyError, TypeError, AttributeError, albedo_frames.BadFrame) as error:
            keeper.log(f"an attachment was cut: {type(error).__name__}: {error}")
            self.close()

    def refuse(self, reason: str) -> None:
        self._stream.send(albedo_frames.encode(
            0, albedo_frames.REFUSED, 0, 0, albedo_json.dumps({"reason": reason})))
        self.finish()

    def _on_drained(self) -> None:
        if self._keeper.attachment is self:
            self._keeper.cells.pump()

    def _on_end(self) -> None:
        self._keeper.loop.cancel(self.timer)
        self._keeper.connection_ended(self)

    def finish(self) -> None:
        """Sends what is queued, then closes."""
        self._stream.finish()
        self._on_end()

    def close(self) -> None:
        self._stream.close()
        self._on_end()
