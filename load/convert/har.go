package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxInput bounds what is read, in bytes.
const MaxInput = 64 << 20

// har is what is read of a HAR file, version 1.2.
type har struct {
	Log struct {
		Entries []struct {
			Started time.Time `json:"startedDateTime"`
			Time    float64   `json:"time"` // milliseconds
			Request struct {
				Method  string `json:"method"`
				URL     string `json:"url"`
				Headers []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"headers"`
				PostData *struct {
					Text string `json:"text"`
				} `json:"postData"`
			} `json:"request"`
			Response struct {
				Content struct {
					MimeType string `json:"mimeType"`
				} `json:"content"`
			} `json:"response"`
		} `json:"entries"`
	} `json:"log"`
}

// static are contents that a browser fetches beside a page, by the beginnings of their types.
var static = []string{"image/", "font/", "text/css", "text/javascript", "application/javascript", "application/x-javascript", "application/font", "audio/", "video/"}

// thinkLeast is the shortest gap that is somebody who thinks.
const thinkLeast = 500 * time.Millisecond

// HAR reads what a browser recorded. What it fetches beside pages is left out unless all
// is asked for; gaps between requests become times to think.
func HAR(text []byte, all bool) (list []Request, notes []string, err error) {
	var h har
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, nil, fmt.Errorf("is no HAR file: %w", err)
	}
	if len(h.Log.Entries) == 0 {
		return nil, nil, errors.New("is no HAR file, or has no entries")
	}
	left, odd := 0, 0
	var end time.Time
	for _, e := range h.Log.Entries {
		if !strings.HasPrefix(e.Request.URL, "http://") && !strings.HasPrefix(e.Request.URL, "https://") {
			odd++
			continue
		}
		if !all && isStatic(e.Response.Content.MimeType) {
			left++
			continue
		}
		r := Request{Method: strings.ToUpper(e.Request.Method), URL: e.Request.URL, Headers: map[string]string{}}
		for _, x := range e.Request.Headers {
			r.Headers[x.Name] = x.Value
		}
		if e.Request.PostData != nil {
			r.Body = e.Request.PostData.Text
		}
		if gap := e.Started.Sub(end); len(list) > 0 && !end.IsZero() && gap >= thinkLeast {
			list[len(list)-1].Think = min(gap, time.Hour).Round(100 * time.Millisecond)
		}
		if t := e.Started.Add(time.Duration(e.Time * float64(time.Millisecond))); t.After(end) {
			end = t
		}
		list = append(list, r)
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("%d requests for pictures, scripts, styles and fonts were left out", left))
	}
	if odd > 0 {
		notes = append(notes, fmt.Sprintf("%d requests that are not of HTTP were left out", odd))
	}
	return list, notes, nil
}

func isStatic(kind string) bool {
	kind = strings.ToLower(strings.TrimSpace(kind))
	for _, s := range static {
		if strings.HasPrefix(kind, s) {
			return true
		}
	}
	return false
}

// Targets reads vegeta's targets: a line "METHOD URL", lines "NAME: VALUE", an empty line.
func Targets(text string) ([]Request, error) {
	var list []Request
	open := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", i+1, fmt.Sprintf(format, args...))
		}
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			open = false
		case strings.HasPrefix(line, "@"):
			return nil, fail("a body of a file: write what %.60q holds into the scenario as body", line[1:])
		default:
			first, rest, _ := strings.Cut(line, " ")
			if strings.ToUpper(first) == first && strings.Contains(rest, "://") && !strings.HasSuffix(first, ":") {
				list = append(list, Request{Method: first, URL: strings.TrimSpace(rest), Headers: map[string]string{}})
				open = true
				continue
			}
			k, v, ok := strings.Cut(line, ":")
			if !ok || !open {
				return nil, fail("want METHOD URL, or behind that NAME: VALUE")
			}
			list[len(list)-1].Headers[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return list, nil
}
