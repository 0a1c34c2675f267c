package wire

// WindowSize is how far behind the highest sequence number a message may
// arrive and still count.
const WindowSize = 1024

// Window remembers which sequence numbers of one sender were accepted. The
// zero value accepts anything. It is a plain value: copying it forks it.
//
// Check first; Advance only after the signature was verified, so that forged
// messages never move the window.
type Window struct {
	boot uint64
	top  uint64 // highest accepted sequence number of boot
	// bits holds the last WindowSize numbers: seq s at bit s mod WindowSize.
	bits [WindowSize / 64]uint64
}

// Check reports whether (boot, seq) is new: nil, or an *Error with ReasonBoot
// or ReasonReplay.
func (w *Window) Check(boot, seq uint64) error {
	switch {
	case boot < w.boot || boot == 0:
		return Refuse(ReasonBoot, "boot %d, last %d", boot, w.boot)
	case seq == 0:
		return Refuse(ReasonReplay, "sequence 0")
	case boot > w.boot || seq > w.top:
		return nil
	case w.top-seq >= WindowSize:
		return Refuse(ReasonReplay, "sequence %d is too far behind %d", seq, w.top)
	case w.bits[seq%WindowSize/64]&(1<<(seq%64)) != 0:
		return Refuse(ReasonReplay, "sequence %d was seen", seq)
	}
	return nil
}

// Advance marks (boot, seq) as accepted. It does nothing where Check refuses.
func (w *Window) Advance(boot, seq uint64) {
	if w.Check(boot, seq) != nil {
		return
	}
	if boot > w.boot {
		*w = Window{boot: boot}
	}
	if seq > w.top {
		if seq-w.top >= WindowSize {
			w.bits = [WindowSize / 64]uint64{}
		} else {
			for s := w.top + 1; s < seq; s++ {
				w.bits[s%WindowSize/64] &^= 1 << (s % 64)
			}
		}
		w.top = seq
	}
	w.bits[seq%WindowSize/64] |= 1 << (seq % 64)
}

// Boot returns the boot counter of the last accepted message, 0 if none.
func (w *Window) Boot() uint64 { return w.boot }
