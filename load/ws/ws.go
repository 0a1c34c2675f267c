package ws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// Request is what is sent.
type Request struct {
	Client   *http.Client
	URL      string // http:// or https://
	Host     string // empty: that of the URL
	Header   http.Header
	Message  []byte // nil: none is sent
	Messages int    // how many are waited for
	Max      int64  // bytes of one
}

// Answer is what came. Times that are zero were not reached.
type Answer struct {
	Status int // 101: it was opened
	Header http.Header
	Last   []byte // the last message
	Size   int64  // of all of them

	Opened, Sent, First, End time.Time
}

// Errors of an exchange, beside those of the client.
var (
	// ErrLarge says that a message is larger than is taken.
	ErrLarge = errors.New("the message is larger than is taken")
	// ErrClosed says that the target closed before all messages were there.
	ErrClosed = errors.New("the target closed the WebSocket")
	// ErrProtocol says that the target does not speak it.
	ErrProtocol = errors.New("no WebSocket")
)

// Exchange makes one. An answer of status 400 and above is no error.
func Exchange(ctx context.Context, r Request) (a Answer, err error) {
	c, resp, err := websocket.Dial(ctx, r.URL, &websocket.DialOptions{HTTPClient: r.Client, HTTPHeader: r.Header, Host: r.Host, CompressionMode: websocket.CompressionDisabled})
	if resp != nil {
		a.Status, a.Header = resp.StatusCode, resp.Header
	}
	if err != nil {
		switch {
		case resp != nil && resp.StatusCode >= http.StatusBadRequest:
			a.End = time.Now()
			return a, nil
		case resp != nil:
			return a, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return a, err
	}
	defer c.CloseNow() //nolint:errcheck // it was closed, or is of no use
	defer context.AfterFunc(ctx, func() { _ = c.CloseNow() })()
	a.Opened = time.Now()
	c.SetReadLimit(r.Max)
	if r.Message != nil {
		if err := c.Write(ctx, websocket.MessageText, r.Message); err != nil {
			return a, failed(err)
		}
		a.Sent = time.Now()
	}
	for range r.Messages {
		_, text, err := c.Read(ctx)
		if err != nil {
			return a, failed(err)
		}
		if a.First.IsZero() {
			a.First = time.Now()
		}
		a.Last, a.Size = text, a.Size+int64(len(text))
	}
	a.End = time.Now()
	_ = c.Close(websocket.StatusNormalClosure, "") // what was asked for is there
	return a, nil
}

func failed(err error) error {
	switch status := websocket.CloseStatus(err); {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return fmt.Errorf("%w: %w", ErrLarge, err)
	case status == websocket.StatusProtocolError:
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	case status != -1:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
