// Go's net/http; it never sends localhost to the proxy of the environment, so the proxy is named.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
)

func call(client *http.Client, url string, body []byte) string {
	var answer *http.Response
	var err error
	if body != nil {
		answer, err = client.Post(url, "text/plain", bytes.NewReader(body))
	} else {
		answer, err = client.Get(url)
	}
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func same(found, wanted string) {
	if found != wanted {
		panic(fmt.Sprintf("%s is not %s", found, wanted))
	}
}

func main() {
	proxy, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil {
		panic(err)
	}
	for _, url := range os.Args[1:] {
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
		for n := 0; n < 10; n++ {
			same(call(client, fmt.Sprintf("%s/%d", url, n), nil), "ok")
		}
		same(call(client, url+"/up", bytes.Repeat([]byte("x"), 2000000)), "2000000")
		same(fmt.Sprint(len(call(client, url+"/down", nil))), "3000000")
		for n := 0; n < 5; n++ {
			same(call(client, fmt.Sprintf("%s/%d", url, n), nil), "ok")
		}
		client.CloseIdleConnections()
	}
}
