package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestServe: a door serves so many at once, makes its page when it is asked for the first
// time, and ends with its context, also while all places are taken.
func TestServe(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var made, inside atomic.Int32
	release := make(chan struct{})
	d := &daemon{say: func(*http.Request) (*http.Response, error) {
		inside.Add(1)
		<-release
		return answered(200, "application/json", "{}"), nil
	}}
	h := Lazily(func() Options { made.Add(1); return Options{API: d, Names: []string{"127.0.0.1"}} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h) }()
	if made.Load() != 0 {
		t.Error("made before anybody asked")
	}
	answers := make(chan error, maxConnections+5)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range maxConnections + 5 {
		go func() {
			resp, err := client.Get("http://" + l.Addr().String() + "/v1/status")
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", resp.Status)
				}
			}
			answers <- err
		}()
	}
	deadline := time.Now().Add(time.Minute)
	for inside.Load() < maxConnections && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // time for one too many, if it could come
	if n := inside.Load(); n != maxConnections || made.Load() != 1 {
		t.Errorf("%d at once, made %d times", n, made.Load())
	}
	close(release)
	for range maxConnections + 5 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
