package centrifugo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
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

// ask asks for something.
func (c *client) ask(ctx context.Context, method string, in, out any) error {
	keys, err := c.key.get()
	if err != nil {
		return fmt.Errorf("centrifugo.api_key_file: %w", err)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+method, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", keys[0])
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return errors.New("the key of centrifugo.api_key_file is not taken: Centrifugo's api_key must be the same")
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("nothing is at %s/%s: centrifugo.api_url must be where Centrifugo has its API, which its internal_port and api_handler_prefix say", c.url, method)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("answer %s", resp.Status)
	case err != nil:
		return fmt.Errorf("answer of Centrifugo: %w", err)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("what answers is no Centrifugo v5: %w", err)
	}
	return nil
}

// batch has commands carried out one after the other. Errors of single ones are in replies.
func (c *client) batch(ctx context.Context, commands []command) ([]reply, error) {
	var out struct {
		Replies []reply   `json:"replies"`
		Error   *apiError `json:"error"`
	}
	in := struct {
		Commands []command `json:"commands"`
	}{commands}
	if err := c.ask(ctx, "batch", in, &out); err != nil {
		return nil, err
	}
	switch {
	case out.Error != nil:
		return nil, out.Error
	case len(out.Replies) != len(commands):
		return nil, fmt.Errorf("%d of %d commands are answered", len(out.Replies), len(commands))
	}
	return out.Replies, nil
}

// connections is how many all of its nodes have.
func (c *client) connections(ctx context.Context) (n int, err error) {
	var out struct {
		Error  *apiError `json:"error"`
		Result struct {
			Nodes []struct {
				Clients int `json:"num_clients"`
			} `json:"nodes"`
		} `json:"result"`
	}
	if err := c.ask(ctx, "info", struct{}{}, &out); err != nil {
		return 0, err
	}
	if out.Error != nil {
		return 0, out.Error
	}
	for _, x := range out.Result.Nodes {
		n += x.Clients
	}
	return n, nil
}
