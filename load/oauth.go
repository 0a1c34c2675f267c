package load

import (
	"fmt"
	"slices"
)

// oauth says where a token comes from: the client credentials grant of OAuth 2.0, RFC 6749
// section 4.4. Its texts may be templates.
type oauth struct{ url, id, secret, scope string }

func readOAuth(t *table) oauth {
	o := oauth{t.text("url"), t.text("client_id"), t.text("client_secret"), t.text("scope")}
	if o.url == "" || o.id == "" || o.secret == "" {
		t.f.add(t.at, `as oauth2 = { url = "https://login.example.org/token", client_id = "load", client_secret = "${secret.load}" }`, "want url, client_id and client_secret")
	}
	t.end()
	return o
}

// tokens adds steps to flow.setup that get the tokens of all steps, each once, and has those
// steps send them. They are requests as all others: to where requests may go, and in the
// report beside those of setup.
func (s *Scenario) tokens() (added int) {
	var known []oauth
	var first []rawStep
	for _, steps := range s.flows {
		for _, st := range steps {
			if st.oauth != (oauth{}) && !slices.Contains(known, st.oauth) {
				known = append(known, st.oauth)
			}
		}
	}
	slices.SortFunc(known, func(a, b oauth) int {
		return slices.Compare([]string{a.url, a.id, a.scope}, []string{b.url, b.id, b.scope})
	})
	name := func(i int) string {
		if i == 0 {
			return "oauth2"
		}
		return fmt.Sprintf("oauth2_%d", i+1)
	}
	for _, steps := range s.flows {
		for i := range steps {
			st := &steps[i]
			n := slices.Index(known, st.oauth)
			if n < 0 {
				continue
			}
			st.bearer = "${" + name(n) + "}"
			if n < len(first) && first[n].name != "" {
				continue
			}
			first = append(first, make([]rawStep, max(0, n+1-len(first)))...)
			at := st.at.key("auth").key("oauth2")
			first[n] = rawStep{
				at: at, name: name(n), checks: []string{"status == 200"}, extract: []rawExtract{{at: at, name: name(n), json: "$.access_token"}},
				rawRequest: rawRequest{
					method: "POST", url: st.oauth.url, headers: map[string]string{"Accept": "application/json"}, basicUser: st.oauth.id, basicPassword: st.oauth.secret,
					form: map[string]string{"grant_type": "client_credentials"}, timeout: s.HTTP.Timeout,
				},
			}
			if st.oauth.scope != "" {
				first[n].form["scope"] = st.oauth.scope
			}
		}
	}
	if len(first) > 0 {
		s.flows["setup"] = append(first, s.flows["setup"]...)
	}
	return len(first)
}
