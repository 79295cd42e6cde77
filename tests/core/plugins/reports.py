"""A document with headings, a table, a list of shares and a quotation."""

REPORT = """# Annual report of the Northwind Cycling Club

## Members

The club had 412 members at the end of the year, 37 more than a year ago. Most new members came
through the evening rides. The youth group meets every Saturday and has a waiting list since May.

| Year | Members | Youth |
|---|---|---|
| 2020 | 310 | 41 |
| 2021 | 322 | 44 |
| 2022 | 351 | 52 |
| 2023 | 375 | 60 |
| 2024 | 412 | 71 |

## Money

Income was 58,400 euro and expenses were 54,900 euro. The largest expense was the new workshop.

- Workshop: 42 %
- Insurance: 23 %
- Races: 20 %
- Other: 15 %

## Rides

We organised 96 rides. The longest one led over 210 kilometres to the coast and back.
The president said: “Nobody remembers who came first, but everybody remembers who waited for them
at the top of the hill.” — Maria Lindt, president

## Next year

The club will open the workshop to the public on Fridays. A second youth group starts in March.
"""
