package centrifugo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/skein-project/skein/internal/advice"
)

// Bounds of a question to the API.
const (
	askTime   = 3 * time.Second
	dialTime  = 2 * time.Second
	maxAnswer = 4 << 20
)

// codeInternal is what the API answers that may well succeed later.
const codeInternal = 100

// command is one of those that the API takes in a batch.
type command struct {
	Publish    *publish    `json:"publish,omitempty"`
	Disconnect *disconnect `json:"disconnect,omitempty"`
}

type publish struct {
	Channel string          `json:"channel"`
	Data    json.RawMessage `json:"data"`
}

type disconnect struct {
	User       string `json:"user"`
	Client     string `json:"client,omitempty"`
	Disconnect ending `json:"disconnect"`
}

// ending is why a connection ends.
type ending struct {
	Code   uint32 `json:"code"`
	Reason string `json:"reason"`
}

// apiError is what the API answers that is no success; its HTTP status is 200 all the same.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *apiError) Error() string {
	return fmt.Sprintf("answer %d: %.200s", e.Code, e.Message)
}

// reply is what came of one command.
type reply struct {
	Error *apiError `json:"error"`
}

// client asks the API. Its methods may be called from any goroutine.
type client struct {
	url  string
	key  *secrets
	http *http.Client
}

func newClient(url string, key *secrets) *client {
	return &client{url: url, key: key, http: &http.Client{
		Timeout: askTime,
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: askTime,
			MaxIdleConnsPerHost: shards + 2, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask asks for something, and returns the answer as it came, and when that was by the clock of
// who answered; the zero time if it does not say.
func (c *client) ask(ctx context.Context, method string, in any) (answer []byte, at time.Time, err error) {
	keys, err := c.key.get()
	if err != nil {
		return nil, at, &advice.Error{Err: fmt.Errorf("centrifugo.api_key_file: %w", err), Next: "name a file with a key there that the daemon's user may read"}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, at, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+method, bytes.NewReader(text))
	if err != nil {
		return nil, at, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", keys[0])
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, at, &advice.Error{Err: err, Next: "start it, or name in centrifugo.api_url where this host reaches its API"}
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	at, _ = http.ParseTime(resp.Header.Get("Date")) // it need not say so
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, at, advice.New("the key of centrifugo.api_key_file is not taken", "Centrifugo's api_key must be the same: `skein gateway centrifugo-config` prints it")
	case resp.StatusCode == http.StatusNotFound:
		return nil, at, advice.New(fmt.Sprintf("nothing is at %s/%s", c.url, method), "centrifugo.api_url must be where Centrifugo has its API, which its internal_port and api_handler_prefix say")
	case resp.StatusCode != http.StatusOK:
		return nil, at, fmt.Errorf("answer %.100s", resp.Status)
	case err != nil:
		return nil, at, fmt.Errorf("answer of Centrifugo: %w", err)
	}
	return answer, at, nil
}

// read reads an answer of the API.
func read(answer []byte, out any) error {
	if err := json.Unmarshal(answer, out); err != nil {
		return advice.New(fmt.Sprintf("what answers is no Centrifugo v5: %v", err), "centrifugo.api_url must be where Centrifugo has its API")
	}
	return nil
}

// batch has commands carried out one after the other. Errors of single ones are in replies.
func (c *client) batch(ctx context.Context, commands []command) ([]reply, error) {
	answer, _, err := c.ask(ctx, "batch", struct {
		Commands []command `json:"commands"`
	}{commands})
	if err != nil {
		return nil, err
	}
	return readReplies(answer, len(commands))
}

// readReplies reads what came of n commands.
func readReplies(answer []byte, n int) ([]reply, error) {
	var out struct {
		Replies []reply   `json:"replies"`
		Error   *apiError `json:"error"`
	}
	switch err := read(answer, &out); {
	case err != nil:
		return nil, err
	case out.Error != nil:
		return nil, out.Error
	case len(out.Replies) != n:
		return nil, fmt.Errorf("%d of %d commands are answered", len(out.Replies), n)
	}
	return out.Replies, nil
}
