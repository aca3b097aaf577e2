"""A headless Chromium for tests; ``reason()`` says why there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)

PATIENCE = 100
"""Seconds to wait for a page, which is far more than an idle machine needs."""


def reason() -> str:
    """Why no browser can be had, empty if one can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not missing:
        return ""
    return f"no {' and no '.join(missing)} here: the page is not tested in a browser"


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """A page, its parts and its logs."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        """Open a file with fresh logs, light, wide, on screen."""
        self.media()
        self.driver.get("about:blank")
        self.problems(), self.requests()
        self.driver.get(path.as_uri())
        self._wait_for_page(path.as_uri())

    def open_again(self) -> None:
        """Load the page again, as it is at the current width."""
        self.driver.refresh()
        self._wait_for_page(self.driver.current_url)

    def _wait_for_page(self, address: str) -> None:
        """Wait for the page and its scripts: on a busy machine ``get`` may return before them."""
        script = "return document.readyState === 'complete' && location.href === arguments[0]"
        WebDriverWait(self.driver, PATIENCE).until(lambda _: self.run(script, address))

    def media(self, name: str = "", scheme: str = "light") -> None:
        """Emulate a medium ("print") and the preferred colours."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},  # clicks wait for no scrolling
        ]
        self.cdp("Emulation.setEmulatedMedia", media=name, features=features)

    def width(self, pixels: int) -> None:
        """Emulate a screen of that width; 0 ends it."""
        if not pixels:
            self.cdp("Emulation.clearDeviceMetricsOverride")
            return
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=pixels,
            height=900,
            deviceScaleFactor=1,
            mobile=pixels < 600,
        )

    def cdp(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What stands in all elements of a kind, also where it is scrolled out of sight."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    def until(self, selector: str, count: int) -> None:
        """Wait for that many elements: some are made when an event arrives, not in the click."""
        script = "return document.querySelectorAll(arguments[0]).length === arguments[1]"
        WebDriverWait(self.driver, PATIENCE).until(lambda _: self.run(script, selector, count))

    def until_some(self, selector: str) -> None:
        """Wait for at least one element of a kind."""
        wait = WebDriverWait(self.driver, PATIENCE)
        wait.until(lambda _: self.all(selector), f"nothing is {selector}")

    def drawn(self, id: str) -> str:
        """A chart's drawing."""
        found: str = self.run("return document.getElementById(arguments[0]).innerHTML", id)
        return found

    def problems(self) -> list[str]:
        """Console messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the last call, those inside the page left out."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("data:", "about:"))]
