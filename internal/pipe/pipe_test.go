package pipe

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

func TestPair(t *testing.T) {
	a, b := Pair(&net.TCPAddr{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(b, b) // ends with the stream
		_ = b.Close()        // in memory
	})
	sent := bytes.Repeat([]byte("0123456789abcdef"), 125_000)
	wg.Go(func() {
		if _, err := a.Write(sent); err != nil {
			t.Error(err)
		}
	})
	back := make([]byte, len(sent))
	if _, err := io.ReadFull(a, back); err != nil || !bytes.Equal(back, sent) {
		t.Fatalf("%v, or other bytes came back", err)
	}
	a.Close()
	wg.Wait()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	a, b = Pair(&net.TCPAddr{})
	tooMuch := make([]byte, window+1)
	if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := a.Write(tooMuch)
	if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write into a full window: %d, %v", n, err)
	}
	a.Close()
	got, err := io.ReadAll(b)
	if err != nil || len(got) != window {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}
